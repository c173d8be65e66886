import { describe, expect, it } from 'vitest'
import { json } from '../../../src/database/database.ts'
import { claim, freshType, places, settings } from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { column, one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

interface Row {
  readonly job_id: number
  readonly created: boolean
}
const enqueueMany = (jobs: unknown) =>
  db().query<Row>('select * from fencepost.enqueue_many($1)', [json(jobs)])

describe('enqueue_many', () => {
  it('gives a row for each job, in input order, whatever their types', async () => {
    const [a, b] = [freshType('a'), freshType('b')]
    const rows = await enqueueMany([
      { type: b, payload: { n: 0 } },
      { type: a, payload: { n: 1 }, priority: 9 },
      { type: b, payload: { n: 2 } },
      { type: a, payload: { n: 3 } },
    ])
    const ids = rows.map((row) => row.job_id)
    expect(rows.every((row) => row.created)).toBe(true)
    expect(ids).toEqual([...ids].sort((x, y) => x - y))
    const claimed = await claim(db(), [a, b], 10)
    const order = new Map(claimed.map((job) => [job.job_id, job.payload]))
    expect(ids.map((id) => order.get(id))).toEqual([{ n: 0 }, { n: 1 }, { n: 2 }, { n: 3 }])
  })

  it('reads every option of enqueue', async () => {
    const type = freshType()
    const rows = await enqueueMany([
      {
        type,
        delay: '10 minutes',
        max_attempts: 2,
        timeout: '5 s',
        headers: { a: 1 },
        tenant: 't',
        idempotency_key: 'k',
      },
      {
        type,
        run_at: '2040-01-01T00:00:00Z',
        payload: null,
        headers: null,
        priority: null,
        tenant: null,
      },
    ])
    const jobs = await db().query(
      `select b.tenant, b.payload, b.headers, b.idempotency_key, b.max_attempts, b.timeout, b.run_at
       from fencepost_private.job b where b.id = any ($1) order by b.id`,
      [rows.map((row) => row.job_id)],
    )
    expect(jobs[0]).toMatchObject({
      tenant: 't',
      payload: {},
      headers: { a: 1 },
      idempotency_key: 'k',
      max_attempts: 2,
      timeout: '00:00:05',
    })
    expect(jobs[1]).toMatchObject({
      tenant: '',
      payload: {},
      headers: null,
      run_at: new Date('2040-01-01T00:00:00Z'),
    })
    for (const row of rows) expect(await places(db(), row.job_id)).toEqual(['delayed'])
  })

  it('gives the same job for a key that comes twice in one list', async () => {
    const type = freshType()
    const job = { type, payload: { n: 1 }, idempotency_key: 'twice' }
    const rows = await enqueueMany([job, { type }, job])
    expect(rows.map((row) => row.created)).toEqual([true, true, false])
    expect(rows[2]?.job_id).toBe(rows[0]?.job_id)
    const refusal = await refused(enqueueMany([job, { ...job, payload: { n: 2 } }]), 'JE005')
    expect(refusal.detail).toMatch(/job 2 of the list/)
  })

  it('looks up thousands of known keys without comparing each with each', async () => {
    const type = freshType()
    const jobs = Array.from({ length: 5000 }, (_, n) => ({ type, idempotency_key: `key-${n}` }))
    const first = await enqueueMany(jobs)
    const begin = performance.now()
    const second = await enqueueMany(jobs)
    const took = performance.now() - begin
    expect(second.map((row) => row.job_id)).toEqual(first.map((row) => row.job_id))
    expect(second.some((row) => row.created)).toBe(false)
    expect(took).toBeLessThan(10_000)
  })

  it('is nothing for an empty list', async () => {
    expect(await enqueueMany([])).toEqual([])
  })

  it.each([
    ['null', null, /array of objects/],
    ['an object', {}, /array of objects/],
    ['a list of numbers', [1], /job 1 of the list is not an object/],
    [
      'an unknown key',
      [{ type: 'x' }, { type: 'x', prioritty: 1 }],
      /job 2 of the list has the unknown key 'prioritty'/,
    ],
    ['no type', [{ payload: 1 }], /job 1 of the list: the type/],
    ['a type that is an object', [{ type: {} }], /job 1 of the list: type must be a text/],
    ['a type that is a number', [{ type: 5 }], /job 1 of the list: type must be a text/],
    [
      'a key that is a number',
      [{ type: 'x', idempotency_key: 5 }],
      /1 of the list: idempotency_key/,
    ],
    ['a tenant that is a number', [{ type: 'x', tenant: 5 }], /job 1 of the list: tenant must/],
    [
      'a fractional priority',
      [{ type: 'x' }, { type: 'x', priority: 5.5 }],
      /^job 2 of the list: priority must be a whole number from 0 to 9$/,
    ],
    [
      'a priority in words',
      [{ type: 'x', priority: 'high' }],
      /job 1 of the list: priority must be/,
    ],
    ['a priority in a text', [{ type: 'x', priority: '7' }], /job 1 of the list: priority must be/],
    ['a huge priority', [{ type: 'x', priority: 1e30 }], /job 1 of the list: priority must be/],
    [
      'many attempts in a text',
      [{ type: 'x', max_attempts: '3' }],
      /job 1 of the list: max_attempts must be a whole number from 1 to 1000000/,
    ],
    [
      'a number of seconds',
      [{ type: 'x', delay: 10 }],
      /job 1 of the list: delay must be an interval/,
    ],
    ['a priority out of range', [{ type: 'x', priority: 10 }], /job 1 of the list: the priority/],
    [
      'a delay that is no interval',
      [{ type: 'x' }, { type: 'x', delay: 'soon' }],
      /job 2 .*: delay must be/,
    ],
    [
      'a delay beyond the calendar',
      [{ type: 'x', delay: '178000000 years' }],
      /job 1 of the list: (the )?delay/,
    ],
    [
      'a run_at that is no time',
      [{ type: 'x', run_at: 'tomorrowish' }],
      /job 1 of the list: run_at must be a time/,
    ],
    [
      'both times',
      [{ type: 'x', run_at: '2030-01-01', delay: '1 s' }],
      /job 1 of the list: give run_at or delay/,
    ],
    ['headers that are a list', [{ type: 'x', headers: [] }], /job 1 of the list: headers/],
    ['a long tenant', [{ type: 'x', tenant: 'x'.repeat(101) }], /job 1 of the list: the tenant/],
  ])('refuses %s', async (_, jobs, message) => {
    const refusal = await refused(enqueueMany(jobs), 'JE003')
    expect(refusal.message).toMatch(message)
  })

  it('suggests the key that was meant', async () => {
    const { hint } = await refused(enqueueMany([{ type: 'x', idempotencykey: 'k' }]), 'JE003')
    expect(hint).toMatch(/did you mean 'idempotency_key'\?/)
  })

  it('refuses null itself', async () => {
    await refused(db().query('select fencepost.enqueue_many(null)'), 'JE003')
  })

  it('names the place of the job that its type refuses, and stores none', async () => {
    const type = freshType()
    await settings(db(), type, { max_payload_bytes: 10 })
    const list = [{ type }, { type, payload: 'much too long for this' }, { type }]
    const refusal = await refused(enqueueMany(list), 'JE006')
    expect(refusal.detail).toMatch(/^job 2 of the list: received/)
    expect(await claim(db(), type, 10)).toEqual([])
  })

  it('makes each new type once, also from two sessions with opposite orders', async () => {
    const types = Array.from({ length: 6 }, () => freshType())
    const lists = Array.from({ length: 8 }, (_, n) => {
      const jobs = types.map((type) => ({ type }))
      return n % 2 === 0 ? jobs : jobs.reverse()
    })
    await Promise.all(lists.map((list) => enqueueMany(list)))
    const made = await column<string>(
      db(),
      'select type from fencepost_private.job_type where type = any ($1) order by type',
      [types],
    )
    expect(made).toEqual([...types].sort())
    expect(await one(db(), 'select count(*) from fencepost.claim($1, $2, 100)', ['w', types])).toBe(
      48,
    )
  })
})
