import { describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../../support/clock.ts'
import {
  claim,
  claimOne,
  enqueue,
  enqueueBatch,
  fail,
  freshType,
  kinds,
  maintain,
  places,
  settings,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

describe('claim', () => {
  it('takes the highest priority first, then the order of enqueue', async () => {
    const type = freshType()
    const ids: number[] = []
    for (const priority of [5, 0, 9, 5, 9, 0]) ids.push(await enqueue(db(), type, { priority }))
    const claimed: number[] = []
    for (let n = 0; n < 6; n++) claimed.push((await claimOne(db(), type)).job_id)
    expect(claimed).toEqual([2, 4, 0, 3, 1, 5].map((place) => ids[place]))
  })

  it('keeps that order in one call, over several types', async () => {
    const [a, b] = [freshType(), freshType()]
    const low = await enqueue(db(), a, { priority: 1 })
    const high = await enqueue(db(), b, { priority: 8 })
    const middle = await enqueue(db(), a, { priority: 4 })
    const claimed = await claim(db(), [a, b], 10)
    expect(claimed.map((job) => job.job_id)).toEqual([high, middle, low])
  })

  it('takes in order of enqueue what many transactions enqueued, in pieces of any size', async () => {
    const type = freshType()
    const ids: number[] = []
    for (const count of [1, 40, 3, 100, 7]) ids.push(...(await enqueueBatch(db(), type, count)))
    const claimed: number[] = []
    for (const max of [1, 30, 2, 64, 100]) {
      claimed.push(...(await claim(db(), type, max)).map((job) => job.job_id))
    }
    expect(claimed).toEqual(ids)
  })

  it('gives no more than asked for, and nothing for 0', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 5)
    expect(await claim(db(), type, 0)).toEqual([])
    expect(await claim(db(), type, 3)).toHaveLength(3)
    expect(await claim(db(), type, 3)).toHaveLength(2)
    expect(await claim(db(), type, 3)).toEqual([])
  })

  it('gives nothing for a type that nobody has enqueued yet, or for no types', async () => {
    expect(await claim(db(), freshType())).toEqual([])
    expect(await claim(db(), [])).toEqual([])
  })

  it('never gives one job to two workers', async () => {
    const type = freshType()
    const ids = await enqueueBatch(db(), type, 400)
    const claims = Array.from({ length: 20 }, (_, n) => claim(db(), type, 20, `worker-${n % 7}`))
    const claimed = (await Promise.all(claims)).flat().map((job) => job.job_id)
    while (claimed.length < 400) {
      const more = await claim(db(), type, 100)
      expect(more.length).toBeGreaterThan(0)
      claimed.push(...more.map((job) => job.job_id))
    }
    expect(claimed.sort((x, y) => x - y)).toEqual(ids)
  })

  it('counts attempts and gives each a new token', async () => {
    const type = freshType()
    const id = await enqueue(db(), type)
    for (let n = 1; n <= 4; n++) {
      const job = await claimOne(db(), type)
      expect(job).toMatchObject({ job_id: id, attempt: n, token: n })
      await db().query('select fencepost.fail($1, $2, retry_in => $3)', [id, n, '0'])
    }
  })

  it('passes over a paused type, and takes it again when it is resumed', async () => {
    const [paused, open] = [freshType(), freshType()]
    await enqueue(db(), paused)
    const id = await enqueue(db(), open)
    await settings(db(), paused, { paused: true })
    expect((await claim(db(), [paused, open], 10)).map((job) => job.job_id)).toEqual([id])
    await settings(db(), paused, { paused: false })
    expect(await claim(db(), [paused, open], 10)).toHaveLength(1)
  })

  it('tells the deadline, by the limit of the job or else of its type', async () => {
    const type = freshType()
    await settings(db(), type, { timeout: '1 hour' })
    await enqueue(db(), type)
    await enqueue(db(), type, { timeout: '5 minutes' })
    const rows = await db().query<{ minutes: number }>(
      `select round(extract(epoch from c.deadline - fencepost_private.now()) / 60)::int as minutes
       from fencepost.claim('w', $1, 2) as c`,
      [[type]],
    )
    expect(rows).toEqual([{ minutes: 60 }, { minutes: 5 }])
  })

  it('publishes each start once, if its type asks for that', async () => {
    const type = freshType()
    const ids = await enqueueBatch(db(), type, 3)
    await settings(db(), type, { publish_started: true })
    await claim(db(), type, 2)
    await claim(db(), type, 2)
    for (const id of ids) expect(await kinds(db(), id)).toEqual(['job.started'])
  })

  it('takes what its own transaction has enqueued', async () => {
    const type = freshType()
    await using session = await Session.open(database.url)
    await session.begin()
    const [made] = await session.query<{ id: number }>('select fencepost.enqueue($1) as id', [type])
    const rows = await session.query<{ job_id: number }>(
      `select job_id from fencepost.claim('own', array[$1::text])`,
      [type],
    )
    expect(rows).toEqual([{ job_id: made?.id }])
    await session.commit()
    expect(await places(db(), made?.id ?? 0)).toEqual(['lease'])
  })

  it.each([
    ['a negative max', `fencepost.claim('w', array['a'], -1)`],
    ['a huge max', `fencepost.claim('w', array['a'], 10001)`],
    ['no max', `fencepost.claim('w', array['a'], null)`],
    ['no types', `fencepost.claim('w', null)`],
    ['a type that is null', `fencepost.claim('w', array['a', null])`],
    ['a worker without a name', `fencepost.claim('', array['a'])`],
    ['no worker', `fencepost.claim(null, array['a'])`],
    ['a ttl that is too short', `fencepost.claim('short', array['a'], ttl => '10 ms')`],
    ['a ttl that is too long', `fencepost.claim('long', array['a'], ttl => '2 days')`],
  ])('refuses %s', async (_, call) => {
    await refused(db().query(`select * from ${call}`), 'JE003')
  })

  it.each(['repeatable read', 'serializable'])('refuses to run in %s', async (level) => {
    await using session = await Session.open(database.url)
    await session.begin(level)
    const refusal = await refused(
      session.query(`select * from fencepost.claim('w', array['a'])`),
      'JE003',
    )
    expect(refusal.detail).toContain(level.toUpperCase())
  })
})

describe('a claim over many lanes', () => {
  it('reaches low priorities behind many idle lanes, while another transaction writes for long', async () => {
    const busy = Array.from({ length: 40 }, (_, n) => freshType(`busy${n}`))
    const low = freshType('low')
    for (const type of busy) await enqueue(db(), type, { priority: 9 })
    await using writer = await Session.open(database.url)
    await writer.begin()
    await writer.query('select pg_current_xact_id()')
    // every claim's watermarks are computed while that transaction is in flight
    while ((await claim(db(), busy, 10)).length > 0) await moveClock(db(), '1 s')
    for (let n = 0; n < 3; n++) {
      await moveClock(db(), '1 s')
      await claim(db(), busy, 10)
    }
    const id = await enqueue(db(), low, { priority: 5 })
    expect((await claim(db(), [...busy, low], 10)).map((job) => job.job_id)).toEqual([id])
    await writer.rollback()
    await restoreClock(db())
  })

  it('examines at most 32 that have work, and comes to all of them', async () => {
    const types = Array.from({ length: 50 }, (_, n) => freshType(`many${n}`))
    for (const type of types) await enqueue(db(), type)
    const first = await claim(db(), types, 100)
    expect(first).toHaveLength(32)
    expect(await claim(db(), types, 100)).toHaveLength(18)
  })

  it('gives each of equal types its turn', async () => {
    const types = [freshType(), freshType(), freshType()]
    for (const type of types) await enqueueBatch(db(), type, 100)
    const seen = new Set<string>()
    for (let n = 0; n < 40 && seen.size < 3; n++)
      seen.add((await claim(db(), types))[0]?.type ?? '')
    expect(seen.size).toBe(3)
  })
})

it('an attempt that was given back is claimed before younger ones only by a new place in the line', async () => {
  // a retried job joins the end of its lane: what waits is never held up by what fails
  const type = freshType()
  const [first, second] = [await enqueue(db(), type), await enqueue(db(), type)]
  const job = await claimOne(db(), type)
  await db().query('select fencepost.fail($1, $2, retry_in => $3)', [job.job_id, job.token, '0'])
  expect((await claim(db(), type, 2)).map((each) => each.job_id)).toEqual([second, first])
  await maintain(db())
  expect(await fail(db(), { ...job, token: 2 })).toBe('retry')
})
