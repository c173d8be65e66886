import { randomBytes } from 'node:crypto'
import { afterEach, describe, expect, it } from 'vitest'
import { json } from '../../src/database/database.ts'
import { moveClock, restoreClock } from '../support/clock.ts'
import { complete, enqueue, freshType, started } from '../support/engine.ts'
import {
  ackEvents,
  consumerState,
  createConsumer,
  drainEvents,
  publishing,
  readEvents,
} from '../support/outbox.ts'
import { ownDatabase, testDatabase } from '../support/server.ts'
import { one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => restoreClock(db()))

const freshName = () => `reader.${randomBytes(5).toString('hex')}`
const consumer = async (filter: object = {}, start = 'now') => {
  const name = freshName()
  await createConsumer(db(), name, filter, start)
  return name
}
const busyType = () => publishing(db(), freshType())
const enqueueSome = async (type: string, count: number) => {
  for (let index = 0; index < count; index++) await enqueue(db(), type)
  await moveClock(db(), '1 second')
}

describe('a consumer', () => {
  it('gets each event once, in order, from the moment it was created', async () => {
    const type = await busyType()
    await enqueue(db(), type)
    const name = await consumer({ types: [type] })
    const job = await started(db(), type)
    await complete(db(), job)
    const events = await drainEvents(db(), name)
    expect(events.map((event) => event.kind)).toEqual(['job.enqueued', 'job.completed'])
    expect(events[1]).toMatchObject({ job_id: job.job_id, type, outcome: 'completed' })
    expect(await drainEvents(db(), name)).toEqual([])
  })

  it('gets what is kept when it starts at the beginning, or from a time on', async () => {
    const type = await busyType()
    await enqueueSome(type, 2)
    await db().query(`select fencepost_private.tick('0')`)
    await moveClock(db(), '1 minute')
    const then = await one<Date>(db(), 'select fencepost_private.now()')
    await enqueueSome(type, 3)
    expect(await drainEvents(db(), await consumer({ types: [type] }, 'beginning'))).toHaveLength(5)
    const late = await consumer({ types: [type] }, then.toISOString())
    expect(await drainEvents(db(), late)).toHaveLength(3)
    const fastClock = new Date(then.getTime() + 50_000)
    await consumer({ types: [type] }, fastClock.toISOString()) // as good as now
  })

  it('gets the same events again until they are acknowledged', async () => {
    const type = await busyType()
    const name = await consumer({ types: [type] })
    await enqueueSome(type, 5)
    const first = await readEvents(db(), name, 3)
    expect(await readEvents(db(), name, 3)).toEqual(first)
    expect(await ackEvents(db(), name, first[1]?.position ?? '')).toBe(true)
    const second = await readEvents(db(), name, 3)
    expect(second.map((event) => event.id)[0]).toBe(first[2]?.id)
    expect(second).toHaveLength(3)
    // again, and one before: done is done
    expect(await ackEvents(db(), name, first[1]?.position ?? '')).toBe(false)
    expect(await ackEvents(db(), name, first[0]?.position ?? '')).toBe(false)
    await ackEvents(db(), name, second[2]?.position ?? '')
    expect(await readEvents(db(), name)).toEqual([])
  })

  it('gives its lease to one reader at a time, and refuses one that was too slow', async () => {
    const type = await busyType()
    const name = await consumer({ types: [type] })
    await enqueueSome(type, 4)
    const slow = await readEvents(db(), name, 2, 'slow')
    expect(slow).toHaveLength(2)
    expect(await readEvents(db(), name, 2, 'quick')).toEqual([])
    expect(await consumerState(db(), name)).toMatchObject({ reader: 'slow' })
    await moveClock(db(), '31 seconds')
    const quick = await readEvents(db(), name, 2, 'quick')
    expect(quick.map((event) => event.id)).toEqual(slow.map((event) => event.id))
    await refused(ackEvents(db(), name, slow[1]?.position ?? ''), 'JE001')
    expect(await readEvents(db(), name, 2, 'slow')).toEqual([])
    await ackEvents(db(), name, quick[1]?.position ?? '')
    // all that was read is acknowledged: anybody may go on
    expect(await readEvents(db(), name, 2, 'slow')).toHaveLength(2)
  })

  it('keeps its lease when it acknowledges a part', async () => {
    const type = await busyType()
    const name = await consumer({ types: [type] })
    await enqueueSome(type, 3)
    const read = await readEvents(db(), name, 2, 'first')
    await ackEvents(db(), name, read[0]?.position ?? '')
    expect(await readEvents(db(), name, 2, 'second')).toEqual([])
    await ackEvents(db(), name, read[1]?.position ?? '')
    expect(await readEvents(db(), name, 2, 'second')).toHaveLength(1)
  })

  it('filters by kind, by kinds that begin alike, by type and by tenant', async () => {
    const [type, other] = [await busyType(), await busyType()]
    const completed = await consumer({ types: [type], kinds: ['job.completed'] })
    const jobs = await consumer({ types: [type, other], kinds: ['job.*'] })
    const tenants = await consumer({ tenant: 'acme', types: [type, other] })
    await complete(db(), await started(db(), type))
    await enqueue(db(), other, { tenant: 'acme' })
    const seen = async (name: string) =>
      (await drainEvents(db(), name)).map(({ kind, type }) => [kind, type])
    expect(await seen(completed)).toEqual([['job.completed', type]])
    expect(await seen(jobs)).toEqual([
      ['job.enqueued', type],
      ['job.completed', type],
      ['job.enqueued', other],
    ])
    expect(await seen(tenants)).toEqual([['job.enqueued', other]])
  })

  it('passes what is for others without a reader noticing', async () => {
    const type = await busyType()
    const name = await consumer({ types: ['never.seen'] })
    await enqueueSome(type, 300)
    const before = await consumerState(db(), name)
    expect(before.lag_events).toBeGreaterThanOrEqual(300)
    expect(await drainEvents(db(), name)).toEqual([])
    expect(await consumerState(db(), name)).toMatchObject({ lag_events: 0, lag_seconds: 0 })
  })

  it('says how far behind it is', async () => {
    const type = await busyType()
    const name = await consumer({ types: [type] })
    await enqueueSome(type, 6)
    await moveClock(db(), '5 minutes')
    const behind = await consumerState(db(), name)
    expect(behind.lag_events).toBe(6)
    expect(behind.lag_seconds).toBeGreaterThanOrEqual(300)
    expect(behind.lag_seconds).toBeLessThan(330)
    const read = await readEvents(db(), name, 4)
    await ackEvents(db(), name, read[3]?.position ?? '')
    expect(await consumerState(db(), name)).toMatchObject({ lag_events: 2 })
  })

  it('is moved: back, forward, to a time and to a position; its reader loses the lease', async () => {
    const type = await busyType()
    const name = await consumer({ types: [type] })
    await enqueueSome(type, 3)
    const read = await readEvents(db(), name)
    await db().query(`select fencepost.seek_consumer($1, 'beginning')`, [name])
    await refused(ackEvents(db(), name, read[0]?.position ?? ''), 'JE001')
    expect(await drainEvents(db(), name, 100, 'reader-2')).toHaveLength(3)
    const plain = read[1]?.position.replace(/~.*/, '') ?? ''
    await db().query('select fencepost.seek_consumer($1, $2)', [name, plain])
    expect(await drainEvents(db(), name)).toHaveLength(1)
    await enqueueSome(type, 1)
    await db().query(`select fencepost.seek_consumer($1, 'now')`, [name])
    expect(await drainEvents(db(), name)).toEqual([])
  })

  it('gives a type that was never seen before to who waits for it', async () => {
    const type = freshType()
    const name = await consumer({ types: [type] })
    expect(await readEvents(db(), name)).toEqual([])
    await complete(db(), await started(db(), type))
    // committed a moment ago: nobody has to wait for it
    expect((await readEvents(db(), name)).map((event) => event.kind)).toEqual(['job.completed'])
  })

  it('has tokens that do not end', async () => {
    const type = await busyType()
    const name = await consumer({ types: [type] })
    await db().query(
      `update fencepost_private.consumer_state s set token = 99999999999 from fencepost_private.consumer c where c.consumer_id = s.consumer_id and c.name = $1`,
      [name],
    )
    await enqueueSome(type, 2)
    expect(await drainEvents(db(), name, 1)).toHaveLength(2)
  })

  it('is created once: again with the same settings is fine, with others it is refused', async () => {
    const name = await consumer({ kinds: ['run.*', 'job.completed'] })
    expect(await createConsumer(db(), name, { kinds: ['job.completed', 'run.*'] })).toBe(false)
    await refused(createConsumer(db(), name, { kinds: ['run.*'] }), 'JE004')
    expect(await one(db(), 'select fencepost.drop_consumer($1)', [name])).toBe(true)
    expect(await one(db(), 'select fencepost.drop_consumer($1)', [name])).toBe(false)
  })
})

describe('bad input is refused with what was received and what would be right', () => {
  const call = (text: string, ...params: unknown[]) => db().query(`select * from ${text}`, params)
  const wrong: [what: string, code: string, call: string, ...params: unknown[]][] = [
    ['a name that is none', 'JE003', 'fencepost.create_consumer($1)', 'two words'],
    ['no name', 'JE003', 'fencepost.create_consumer($1)', null],
    ['an unknown key', 'JE003', 'fencepost.create_consumer($1, $2)', 'a', json({ kind: ['x'] })],
    ['a filter that is none', 'JE003', 'fencepost.create_consumer($1, $2)', 'a', json([1])],
    [
      'an unknown kind',
      'JE003',
      'fencepost.create_consumer($1, $2)',
      'a',
      json({ kinds: ['job.complete'] }),
    ],
    [
      'a star of nothing',
      'JE003',
      'fencepost.create_consumer($1, $2)',
      'a',
      json({ kinds: ['jobs.*'] }),
    ],
    ['an empty list', 'JE003', 'fencepost.create_consumer($1, $2)', 'a', json({ types: [] })],
    ['a list of numbers', 'JE003', 'fencepost.create_consumer($1, $2)', 'a', json({ types: [7] })],
    [
      'a type that cannot be',
      'JE003',
      'fencepost.create_consumer($1, $2)',
      'a',
      json({ types: ['a b'] }),
    ],
    [
      'a tenant that is no text',
      'JE003',
      'fencepost.create_consumer($1, $2)',
      'a',
      json({ tenant: 7 }),
    ],
    ['a start that is none', 'JE003', `fencepost.create_consumer($1, '{}', 'yesterday')`, 'a'],
    ['a time that is none', 'JE003', `fencepost.create_consumer($1, '{}', '2030-13-45')`, 'a'],
    ['a time to come', 'JE003', `fencepost.create_consumer($1, '{}', '2999-01-01')`, 'a'],
    ['moving to a time to come', 'JE003', `fencepost.seek_consumer('known', '2999-01-01')`],
    ['listing from a time to come', 'JE003', `fencepost.list_events('2999-01-01')`],
    ['no lag at all', 'JE003', `fencepost.create_consumer($1, max_lag => '0')`, 'a'],
    ['reading nobody', 'JE002', 'fencepost.read_events($1)', 'nobody'],
    ['reading nothing', 'JE003', `fencepost.read_events('known', 0)`],
    ['reading too much', 'JE003', `fencepost.read_events('known', 10001)`],
    ['a lease of no time', 'JE003', `fencepost.read_events('known', lease => '0')`],
    ['acknowledging for nobody', 'JE002', `fencepost.ack_events('nobody', '1.0')`],
    ['a position that is none', 'JE003', `fencepost.ack_events('known', 'x')`],
    ['no position', 'JE003', `fencepost.ack_events('known', null)`],
    ['a position of no lease', 'JE001', `fencepost.ack_events('known', '900000000.0')`],
    ['a position that was not read', 'JE003', `fencepost.ack_events('known', '900000000.0~0')`],
    [
      'a start in another log',
      'JE003',
      `fencepost.create_consumer($1, start => '900000000000.1')`,
      'a',
    ],
    [
      'a time in no zone',
      'JE003',
      `fencepost.create_consumer($1, start => '2030-01-01 12:00 Nowhere/Zone')`,
      'a',
    ],
    ['moving to another log', 'JE003', `fencepost.seek_consumer('known', '900000000000.1')`],
    ['moving nobody', 'JE002', `fencepost.seek_consumer('nobody', 'now')`],
    ['moving nowhere', 'JE003', `fencepost.seek_consumer('known', null)`],
    ['moving to a parked event', 'JE003', `fencepost.seek_consumer('known', 'p7')`],
    ['listing from nowhere', 'JE003', `fencepost.list_events('x')`],
    ['listing nothing', 'JE003', `fencepost.list_events(max => 0)`],
    ['listing what is not', 'JE003', `fencepost.list_events(filter => '{"kinds": ["x"]}')`],
    ['a place that is none', 'JE003', `fencepost.event_position('x')`],
  ]
  it.each(wrong.map(([what, ...rest]) => ({ what, rest })))('$what', async ({ rest }) => {
    const [code, text, ...params] = rest
    await createConsumer(db(), 'known')
    await refused(call(text, ...params), code)
  })
})

describe('without a consumer', () => {
  const list = (after: string, max: number, filter: object) =>
    db().query<{ position: string; id: number | null }>(
      'select position, id from fencepost.list_events($1, $2, $3)',
      [after, max, json(filter)],
    )

  it('anybody reads the log, and goes on where they were', async () => {
    const type = await busyType()
    const start = await one<string>(db(), 'select fencepost.event_position()')
    await enqueueSome(type, 7)
    const ids: number[] = []
    let after = start
    for (;;) {
      const rows = await list(after, 3, { types: [type] })
      ids.push(...rows.flatMap((row) => row.id ?? []))
      const last = rows.at(-1)
      if (last === undefined) break
      after = last.position
    }
    expect(ids).toHaveLength(7)
    expect(ids).toEqual([...ids].sort((a, b) => a - b))
    await enqueueSome(type, 1)
    expect((await list(after, 3, { types: [type] })).filter((row) => row.id !== null)).toHaveLength(
      1,
    )
  })

  it.each([0, 30])(
    'nothing is missed when the ticks of a position have been thinned (%i read before)',
    async (before) => {
      const own = await testDatabase()
      try {
        const type = await publishing(own.db, freshType())
        const all = (after: string, max: number) =>
          own.db.query<{ position: string; id: number | null }>(
            'select position, id from fencepost.list_events($1, $2)',
            [after, max],
          )
        for (let round = 0; round < 6; round++) {
          for (let index = 0; index < 20; index++) await enqueue(own.db, type)
          await moveClock(own.db, '1 second')
          await all('now', 1)
        }
        const kept =
          before === 0 ? 'beginning' : ((await all('beginning', before)).at(-1)?.position ?? '')
        await moveClock(own.db, '2 hours')
        await own.db.query('select fencepost_private.prune_ticks()')
        const rest = (await all(kept, 1000)).flatMap(({ id }) => id ?? [])
        const whole = (await all('beginning', 1000)).flatMap(({ id }) => id ?? [])
        expect(rest).toEqual(expect.arrayContaining(whole.slice(before)))
      } finally {
        await own.drop()
      }
    },
  )

  it('a last row says how far the look went when nothing more matched', async () => {
    const type = await busyType()
    const start = await one<string>(db(), 'select fencepost.event_position()')
    await enqueueSome(type, 3)
    const rows = await list(start, 10, { types: ['never.seen'] })
    expect(rows).toHaveLength(1)
    expect(rows[0]?.id).toBeNull()
    expect(await list(rows[0]?.position ?? '', 10, { types: [type] })).toEqual([])
  })
})
