import { describe, expect, it } from 'vitest'
import {
  claimOne,
  enqueue,
  enqueueBatch,
  freshType,
  kinds,
  places,
  settings,
  status,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { column, one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

describe('enqueue', () => {
  it('makes a job with the defaults of the engine', async () => {
    const type = freshType()
    const id = await enqueue(db(), type)
    expect(await status(db(), id)).toBe('pending')
    expect(await places(db(), id)).toEqual(['ready'])
    const [job] = await db().query('select * from fencepost_private.job where id = $1', [id])
    expect(job).toMatchObject({
      payload: {},
      headers: null,
      tenant: '',
      idempotency_key: null,
      max_attempts: null,
      timeout: null,
    })
    const claimed = await claimOne(db(), type)
    expect(claimed).toMatchObject({
      job_id: id,
      token: 1,
      attempt: 1,
      priority: 5,
      max_attempts: 5,
    })
  })

  it('hands payload and headers on as they were', async () => {
    const type = freshType()
    const payload = { deep: [1, { ключ: 'значение 🎈' }], zero: 0, no: null }
    await enqueue(db(), type, { payload, headers: { traceparent: '00-ab' } })
    const job = await claimOne(db(), type)
    expect(job).toMatchObject({ payload, headers: { traceparent: '00-ab' } })
  })

  it('exists when its transaction commits, and never if that rolls back', async () => {
    const type = freshType()
    await using session = await Session.open(database.url)
    await session.begin()
    await session.query('select fencepost.enqueue($1)', [type])
    expect(await column(db(), 'select job_id from fencepost.claim($1, $2)', ['w', [type]])).toEqual(
      [],
    )
    await session.rollback()
    expect(await column(db(), 'select job_id from fencepost.claim($1, $2)', ['w', [type]])).toEqual(
      [],
    )
    await session.begin()
    const [made] = await session.query<{ id: number }>('select fencepost.enqueue($1) as id', [type])
    await session.commit()
    expect((await claimOne(db(), type)).job_id).toBe(made?.id)
  })

  it('says nothing of a list, which there is not', async () => {
    const type = freshType()
    await settings(db(), type, { max_payload_bytes: 10, max_pending: 1, payload_check: '$ < 9' })
    const enqueued = (rest: string) => db().query(`select fencepost.enqueue($1, ${rest})`, [type])
    const refusals = [
      await refused(enqueued(`'"much too long"'`), 'JE006'),
      await refused(enqueued(`'10'`), 'JE006'),
    ]
    await enqueued(`'1', idempotency_key => 'k'`)
    refusals.push(await refused(enqueued(`'1'`), 'JE007'))
    refusals.push(await refused(enqueued(`'2', idempotency_key => 'k'`), 'JE005'))
    await settings(db(), type, { accept: false })
    refusals.push(await refused(enqueued(`'1'`), 'JE007'))
    for (const { message, detail } of refusals)
      expect(message + detail).not.toContain('of the list')
  })

  it('names both limits of what is out of range', async () => {
    for (const attempts of [0, 2_147_483_647]) {
      const { message } = await refused(
        db().query('select fencepost.enqueue($1, max_attempts => $2)', ['x', attempts]),
        'JE003',
      )
      expect(message).toBe('max_attempts must be from 1 to 1000000')
    }
  })

  it('runs in the transaction of any isolation level', async () => {
    const type = freshType()
    await using session = await Session.open(database.url)
    for (const level of ['repeatable read', 'serializable']) {
      await session.begin(level)
      await session.query('select fencepost.enqueue($1)', [type])
      await session.commit()
    }
    await claimOne(db(), type)
    await claimOne(db(), type)
  })

  it('tells of it only when its type publishes that', async () => {
    const type = freshType()
    expect(await kinds(db(), await enqueue(db(), type))).toEqual([])
    await settings(db(), type, { publish_enqueued: true })
    expect(await kinds(db(), await enqueue(db(), type))).toEqual(['job.enqueued'])
  })

  it('takes the tenant of the session, or the one it is given', async () => {
    const type = freshType()
    await using session = await Session.open(database.url)
    await session.query("set fencepost.tenant = 'acme'")
    await session.query('select fencepost.enqueue($1)', [type])
    await session.query(`select fencepost.enqueue($1, tenant => 'zeta')`, [type])
    const tenants = await column(
      db(),
      `select b.tenant from fencepost_private.job b join fencepost_private.lane l on l.lane_id = b.lane_id
       join fencepost_private.job_type t on t.type_id = l.type_id where t.type = $1 order by b.id`,
      [type],
    )
    expect(tenants).toEqual(['acme', 'zeta'])
  })

  it.each([
    ['a type with a space', { type: 'two words' }, /type of a job/],
    ['an empty type', { type: '' }, /type of a job/],
    ['a type of 201 characters', { type: 'x'.repeat(201) }, /type of a job/],
    ['no type', { type: null }, /type of a job/],
    ['a negative priority', { priority: -1 }, /priority/],
    ['priority 10', { priority: 10 }, /priority/],
    ['no priority', { priority: null }, /priority/],
    ['run_at and delay', { run_at: new Date(), delay: '1 s' }, /not both/],
    ['a negative delay', { delay: '-1 s' }, /delay/],
    ['a delay beyond a century', { delay: '101 years' }, /delay/],
    ['an endless run_at', { run_at: 'infinity' }, /run_at/],
    ['an empty key', { idempotency_key: '' }, /idempotency key/],
    ['a key of 501 characters', { idempotency_key: 'x'.repeat(501) }, /idempotency key/],
    ['no attempts', { max_attempts: 0 }, /max_attempts/],
    ['too many attempts', { max_attempts: 1_000_001 }, /max_attempts/],
    ['a timeout of nothing', { timeout: '0' }, /timeout/],
    ['a timeout beyond the calendar', { timeout: '178000000 years' }, /timeout/],
    ['headers that are no object', { headers: [1] }, /headers/],
    ['headers of 70 KB', { headers: { h: 'x'.repeat(70_000) } }, /headers/],
    ['a tenant of 101 characters', { tenant: 'x'.repeat(101) }, /tenant/],
  ])('refuses %s', async (_, options: Record<string, unknown>, message) => {
    const { type = 'refused', ...rest } = options
    const refusal = await refused(enqueue(db(), type as string, rest), 'JE003')
    expect(refusal.message).toMatch(message)
  })

  it('takes the longest key, tenant and type that it allows, of any script', async () => {
    // 4 bytes each, not compressible: the index must hold all of it
    const letters = (count: number) =>
      Array.from({ length: count }, (_, i) =>
        String.fromCodePoint(0x10000 + ((i * 7919) % 60_000)),
      ).join('')
    const options = { idempotency_key: letters(500), tenant: letters(100) }
    const type = `${freshType()}${'x'.repeat(170)}`.slice(0, 200)
    const id = await enqueue(db(), type, options)
    expect(await enqueue(db(), type, options)).toBe(id)
  })

  it('refuses a delay and a timeout without end, where the server knows such', async () => {
    const version = await one<number>(db(), "select current_setting('server_version_num')::int")
    if (version < 170_000) return
    await refused(enqueue(db(), freshType(), { delay: 'infinity' }), 'JE003')
    await refused(enqueue(db(), freshType(), { timeout: 'infinity' }), 'JE003')
  })
})

describe('a type that is choosy', () => {
  it('refuses a payload that is too large', async () => {
    const type = freshType()
    await settings(db(), type, { max_payload_bytes: 20 })
    const fits = { a: '0123456789' }
    expect(JSON.stringify(fits).length).toBeLessThanOrEqual(20)
    await enqueue(db(), type, { payload: fits })
    const refusal = await refused(
      enqueue(db(), type, { payload: { a: '0123456789abcdef' } }),
      'JE006',
    )
    expect(refusal.detail).toMatch(/limit is 20/)
  })

  it('has a limit of 1 MiB by default', async () => {
    const type = freshType()
    await enqueue(db(), type, { payload: 'x'.repeat(1_048_574) })
    await refused(enqueue(db(), type, { payload: 'x'.repeat(1_048_575) }), 'JE006')
    await refused(enqueue(db(), type, { payload: 'x'.repeat(10_000_000) }), 'JE006')
  })

  it('refuses a payload that fails its check, or for which the check fails', async () => {
    const type = freshType()
    await settings(db(), type, { payload_check: '$.to like_regex "@"' })
    await enqueue(db(), type, { payload: { to: 'a@b.c' } })
    const refusal = await refused(enqueue(db(), type, { payload: { to: 'nobody' } }), 'JE006')
    expect(refusal.hint).toContain('like_regex')
    for (const payload of [{}, { to: 7 }, [], 'a@b.c', null]) {
      await refused(enqueue(db(), type, { payload }), 'JE006')
    }
  })

  it('refuses everything while it is closed', async () => {
    const type = freshType()
    await enqueue(db(), type)
    await settings(db(), type, { accept: false })
    const refusal = await refused(enqueue(db(), type), 'JE007')
    expect(refusal.message).toMatch(/does not accept/)
    await settings(db(), type, { accept: true })
    await enqueue(db(), type)
  })

  it('refuses more than max_pending jobs that wait, delayed ones included', async () => {
    const type = freshType()
    await settings(db(), type, { max_pending: 3 })
    await enqueue(db(), type)
    await enqueue(db(), type, { delay: '1 hour' })
    const two = `select * from fencepost.enqueue_many(jsonb_build_array(jsonb_build_object('type', $1::text), jsonb_build_object('type', $1::text)))`
    const refusal = await refused(db().query(two, [type]), 'JE007')
    expect(refusal).toMatchObject({
      message: expect.stringMatching(/is full/),
      detail: expect.stringMatching(/job 2/),
    })
    await enqueue(db(), type)
    await refused(enqueue(db(), type), 'JE007')
    await claimOne(db(), type)
    await enqueue(db(), type)
  })
})

describe('enqueue_batch', () => {
  it('makes one job for each payload, in their order', async () => {
    const type = freshType()
    const ids = await one<number[]>(
      db(),
      `select fencepost.enqueue_batch($1, array['1', '"two"', '{"n": 3}', null]::jsonb[], priority => 7)`,
      [type],
    )
    expect(ids).toEqual([...ids].sort((a, b) => a - b))
    const claimed = await db().query('select * from fencepost.claim($1, $2, 10)', ['w', [type]])
    expect(claimed.map(({ job_id, payload }) => [job_id, payload])).toEqual([
      [ids[0], 1],
      [ids[1], 'two'],
      [ids[2], { n: 3 }],
      [ids[3], {}],
    ])
    expect(claimed.every(({ priority }) => priority === 7)).toBe(true)
  })

  it('makes nothing of nothing', async () => {
    const text = 'select fencepost.enqueue_batch($1, $2::jsonb[])'
    expect(await one(db(), text, [freshType(), []])).toEqual([])
    expect(await one(db(), text, [freshType(), null])).toEqual([])
  })

  it('is all or nothing', async () => {
    const type = freshType()
    await settings(db(), type, { max_payload_bytes: 10 })
    const text = `select fencepost.enqueue_batch($1, array['1', '"far too long a text"']::jsonb[])`
    const refusal = await refused(db().query(text, [type]), 'JE006')
    expect(refusal.detail).toMatch(/job 2/)
    expect(
      await column(db(), 'select job_id from fencepost.claim($1, $2, 9)', ['w', [type]]),
    ).toEqual([])
    await refused(
      db().query(`select fencepost.enqueue_batch($1, array['1']::jsonb[], delay => '-1 s')`, [
        type,
      ]),
      'JE003',
    )
    await refused(
      db().query(`select fencepost.enqueue_batch($1, array['1']::jsonb[], priority => 11)`, [type]),
      'JE003',
    )
  })

  it('crosses into partitions that did not exist when it began', async () => {
    const before = await one<number>(
      db(),
      "select count(*) from fencepost_private.partitions('job')",
    )
    await db().query(
      `select setval('fencepost_private.job_id_seq', (select max(end_id) - 5000 from fencepost_private.partitions('job')))`,
    )
    const ids = await enqueueBatch(db(), freshType(), 10_000)
    expect(ids).toHaveLength(10_000)
    const after = await one<number>(
      db(),
      "select count(*) from fencepost_private.partitions('job')",
    )
    expect(after).toBeGreaterThan(before)
  })
})
