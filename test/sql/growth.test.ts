import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { freshType, maintain } from '../support/engine.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { column, one } from '../support/sql.ts'

// What a claim costs is counted in pages that it touches: noise does not change that number. A claim of 100 jobs may
// touch at most 1.25 times the pages that it touches when there is next to nothing in the database.

const MILLION = 1_000_000
const LIMIT = 1.25

const database = ownDatabase()
const db = () => database.db
let worker: number
let type: string
let small: number

beforeAll(async () => {
  worker = await one(db(), `select fencepost.register_worker('counter', ttl => '1 day')`)
  type = freshType()
  await enqueue(2000)
  small = await pages()
}, 60_000)

async function enqueue(count: number): Promise<void> {
  for (let left = count; left > 0; left -= 50_000) {
    await db().query(
      `select fencepost.enqueue_batch($1, array_fill('{"n": 1}'::jsonb, array[$2::int]))`,
      [type, Math.min(left, 50_000)],
      { timeout: 60_000 },
    )
  }
}

/** Claims and completes `count` jobs, in two sessions. */
async function finish(count: number, most = 10_000): Promise<void> {
  let left = count
  const work = async () => {
    while (left > 0) {
      const max = Math.min(left, most)
      left -= max
      await db().query(
        `with taken as materialized (
           select array_agg(job_id) as ids, array_agg(token) as tokens
           from fencepost.exchange($1, types => array[$2::text], max => $3) where directive = 'run'
         )
         select count(done.job_id) from taken cross join lateral fencepost.complete_many(taken.ids, taken.tokens) as done`,
        [worker, type, max],
        { timeout: 60_000 },
      )
    }
  }
  await Promise.all([work(), work()])
}

interface Plan {
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
}

/** Pages that a claim of 100 touches: the median of the last ones of several in one session, which had planned before. */
async function pages(times = 12): Promise<number> {
  await using session = await Session.open(database.url)
  const counts: number[] = []
  for (let n = 0; n < times; n++) {
    await moveClock(db(), '1 s') // so that each refreshes the watermark, too
    const [row] = await session.query<{ 'QUERY PLAN': { Plan: Plan }[] }>(
      `explain (analyze, buffers, timing off, format json) ${claim100()}`,
    )
    const plan = row?.['QUERY PLAN'][0]?.Plan
    if (n >= times - 5 && plan) counts.push(plan['Shared Hit Blocks'] + plan['Shared Read Blocks'])
  }
  counts.sort((a, b) => a - b)
  return counts[counts.length >> 1] as number
}

/** Tables that a statement reads from end to end. */
async function scanned(session: Session, text = claim100()): Promise<string[]> {
  await session.begin()
  await session.query(text)
  const rows = await session.query<{ relname: string }>(
    `select relname from pg_stat_xact_all_tables where schemaname = 'fencepost_private' and seq_scan > 0`,
  )
  await session.commit()
  return rows.map((row) => row.relname)
}

const claim100 = () =>
  `select * from fencepost.exchange(${worker}, types => array['${type}'], max => 100)`

describe('a claim of 100', () => {
  let planned: Session
  beforeAll(async () => {
    planned = await Session.open(database.url)
    for (let n = 0; n < 8; n++) await scanned(planned)
  })
  afterAll(() => planned[Symbol.asyncDispose]())

  it('costs the same with a million jobs ready, none of them analysed', {
    timeout: 120_000,
  }, async () => {
    await enqueue(MILLION)
    const large = await pages()
    console.log(`pages of a claim of 100: ${small} with 2,000 jobs ready, ${large} with a million`)
    expect(large / small).toBeLessThanOrEqual(LIMIT)
    expect(await scanned(planned)).toEqual([])
  })

  it('costs the same with statistics, fresh or stale', async () => {
    await db().query('analyze fencepost_private.ready', [], { timeout: 60_000 })
    await db().query('analyze fencepost_private.lease, fencepost_private.job', [], {
      timeout: 60_000,
    })
    expect((await pages()) / small).toBeLessThanOrEqual(LIMIT)
    // as if the tables had been tiny when they were last looked at
    await db().query(
      `update pg_class set relpages = 1, reltuples = 1
       where relnamespace = 'fencepost_private'::regnamespace and relkind in ('r', 'i') and relpages > 1`,
    )
    expect((await pages()) / small).toBeLessThanOrEqual(LIMIT)
    expect(await scanned(planned)).toEqual([])
  })

  it('costs the same with a million jobs finished', { timeout: 300_000 }, async () => {
    await finish(MILLION)
    await enqueue(2000)
    const large = await pages()
    console.log(`pages of a claim of 100: ${large} with a million finished`)
    expect(large / small).toBeLessThanOrEqual(LIMIT)
    expect(await scanned(planned)).toEqual([])
    await maintain(db())
    expect((await pages()) / small).toBeLessThanOrEqual(LIMIT)
  })

  it('costs the same under a held snapshot, however many rows died', {
    timeout: 120_000,
  }, async () => {
    await using holder = await Session.open(database.url)
    await holder.begin('repeatable read')
    await holder.query('select count(*) from fencepost_private.ready')
    await enqueue(42_000)
    await finish(40_000)
    const held = await pages()
    console.log(`pages of a claim of 100: ${held} above 40,000 dead rows`)
    expect(held / small).toBeLessThanOrEqual(LIMIT)
    expect(await scanned(planned)).toEqual([])
    // without a watermark it walks over all of them: they are there
    await db().query('truncate fencepost_private.lane_hint')
    expect((await pages(1)) / small).toBeGreaterThan(LIMIT)
    await holder.rollback()
  })
})

describe('a claim of 100 under a held snapshot', () => {
  const HELD = 40_000

  /** Pages of a claim when most of `HELD` jobs that came in an odd way have died before it. */
  async function above(come: () => Promise<void>): Promise<number> {
    await using holder = await Session.open(database.url)
    await holder.begin('repeatable read')
    await holder.query('select count(*) from fencepost_private.ready')
    await come()
    for (let n = 0; n < 8; n++) {
      await finish((HELD - 2000) / 8, 500)
      await moveClock(db(), '1 s')
    }
    const held = await pages()
    await holder.rollback()
    return held
  }

  it('costs the same among the rows of one transaction that committed late', async () => {
    // nothing older may be left, so that the watermark passes it
    await finish(await one<number>(db(), 'select count(*) from fencepost_private.ready'))
    await using late = await Session.open(database.url)
    await late.begin()
    await late.query(
      `select fencepost.enqueue_batch('${type}', array_fill('{}'::jsonb, array[${HELD}]))`,
    )
    for (let n = 0; n < 3; n++) {
      await moveClock(db(), '1 s')
      await enqueue(100)
      await finish(100)
    }
    const held = await above(() => late.commit())
    expect(held / small).toBeLessThanOrEqual(LIMIT)
  })

  it('costs the same behind a claim that is left open', async () => {
    await enqueue(HELD)
    await using open = await Session.open(database.url)
    await open.begin()
    await open.query(claim100())
    const held = await above(async () => {})
    expect(held / small).toBeLessThanOrEqual(LIMIT * 1.2) // it looks at the hundred held ones, each time
    await open.rollback()
  })
})

const LARGE = /^(job|event)(_\d+)?$|^(ready|lease|delayed|idempotency_key|depth_delta|lane_hint)$/

/** A job that stands where the condition says. */
const some = (place: string, n: number) =>
  `(select id from fencepost_private.${place} order by id offset ${n} limit 1)`
const held = (n: number) =>
  `${some('lease', n)}, (select token from fencepost_private.lease order by id offset ${n} limit 1)`

describe('no call reads a large table from end to end:', () => {
  beforeAll(async () => {
    await enqueue(200)
    await db().query(claim100())
    for (let n = 0; n < 4; n++)
      await db().query(`select fencepost.fail(${held(0)}, permanent => true)`)
    for (let n = 0; n < 3; n++) await db().query(`select fencepost.suspend(${held(0)})`)
    await maintain(db()) // it may make a partition, and does nothing else then
  })

  it.each([
    ['enqueue', () => `select fencepost.enqueue('${type}', idempotency_key => 'key ' || random())`],
    [
      'enqueue_many',
      () =>
        `select fencepost.enqueue_many('[{"type": "${type}", "idempotency_key": "k"}, {"type": "${type}", "delay": "1 s"}]')`,
    ],
    ['claim', () => `select fencepost.claim('by name', array['${type}'], 3)`],
    ['complete', () => `select fencepost.complete(${held(0)}, '1')`],
    [
      'complete_many',
      () =>
        `select fencepost.complete_many(array[${some('lease', 0)}], array[1], array['1'::jsonb])`,
    ],
    ['fail', () => `select fencepost.fail(${held(0)}, 'x')`],
    ['release', () => `select fencepost.release(${held(0)})`],
    ['step', () => `select fencepost.step(${held(0)}, 'a')`],
    ['progress', () => `select fencepost.progress(${held(0)}, '1')`],
    ['suspend', () => `select fencepost.suspend(${held(0)})`],
    ['resume', () => `select fencepost.resume(${some('suspended', 0)}, '1')`],
    [
      'heartbeat',
      () =>
        `select fencepost.heartbeat('counter', array[${some('lease', 0)}], array[1], ${worker})`,
    ],
    ['cancel of a ready job', () => `select fencepost.cancel(${some('ready', 0)})`],
    ['cancel of a running job', () => `select fencepost.cancel(${some('lease', 0)})`],
    ['replay', () => `select fencepost.replay(${some('dead_letter', 0)})`],
    ['discard', () => `select fencepost.discard(${some('dead_letter', 1)})`],
    ['reprioritize', () => `select fencepost.reprioritize(${some('ready', 0)}, 6)`],
    ['maintain', () => `select fencepost.maintain()`],
  ])('%s', async (call, text) => {
    await using session = await Session.open(database.url)
    // the ids first, so that looking for them is not counted
    const statement = text()
    const parts = statement.match(/\(select [^()]*\)/g) ?? []
    let resolved = statement
    for (const part of parts) {
      resolved = resolved.replace(part, String(await one(db(), part.slice(1, -1))))
    }
    const tables = await scanned(session, resolved)
    // what runs now is read by housekeeping from end to end, on purpose: see reclaim
    const large = tables.filter(
      (name) => LARGE.test(name) && (call !== 'maintain' || name !== 'lease'),
    )
    expect(large).toEqual([])
  })
})

it('what the tests count is what they mean', async () => {
  expect(small).toBeGreaterThan(500)
  expect(await column(db(), 'select count(*) > 1000000 from fencepost_private.job')).toEqual([true])
})
