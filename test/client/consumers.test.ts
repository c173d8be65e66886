import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  type EventBatch,
  Fencepost,
  type LogEvent,
  PermanentError,
  silentLogger,
} from '../../src/index.ts'
import { moveClock, restoreClock } from '../support/clock.ts'
import { freshType } from '../support/engine.ts'
import { publishing } from '../support/outbox.ts'
import { startProxy, type TcpProxy } from '../support/proxy.ts'
import { ownDatabase } from '../support/server.ts'
import { column, one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
let engine: Fencepost
beforeAll(async () => {
  engine = new Fencepost({ url: database.url })
  await db().query('create table ledger (event_id bigint, reader text)')
})
afterAll(() => engine.close())
afterEach(() => restoreClock(db()))

const quiet = { logger: silentLogger, poll: 20 }

/** A consumer of the enqueues of a type of its own, by the same name. */
async function fresh(): Promise<string> {
  const name = await publishing(db(), freshType())
  await engine.createConsumer(name, { filter: { types: [name] } })
  return name
}
const put = (type: string, count: number) => engine.enqueueBatch(type, Array(count).fill({}))
const jobsOf = (events: readonly LogEvent[]) => events.map(({ jobId }) => jobId)
const ledger = () => column<number>(db(), 'select event_id from ledger order by event_id')
/** Waits until a consumer has nothing more to read. */
const caughtUp = (name: string) =>
  expect.poll(async () => (await engine.consumer(name))?.lagEvents, { timeout: 15_000 }).toBe(0)

/** Reads and acknowledges batches until so many events were seen. */
async function read(name: string, count: number, from: Fencepost = engine): Promise<LogEvent[]> {
  const seen: LogEvent[] = []
  for await (const batch of from.subscribe(name, quiet)) {
    seen.push(...batch.events)
    await batch.ack()
    if (seen.length >= count) break
  }
  return seen
}

describe('a consumer', () => {
  it('is made once, looked at, moved and dropped', async () => {
    const name = await fresh()
    expect(await engine.createConsumer(name, { filter: { types: [name] } })).toBe(false)
    await refused(engine.createConsumer(name, { filter: { types: [name] }, maxLag: '1h' }), 'JE004')
    const ids = await put(name, 3)
    expect(await engine.consumer(name)).toMatchObject({
      name,
      lagEvents: 3,
      maxLag: '7 days',
      types: [name],
      parked: 0,
      expiredAt: null,
    })
    expect((await engine.consumers()).map((each) => each.name)).toContain(name)
    expect(await engine.seekConsumer(name, 'now')).toMatch(/\S/)
    expect(await engine.consumer(name)).toMatchObject({ lagEvents: 0 })
    await engine.seekConsumer(name, new Date(0))
    expect(jobsOf(await read(name, 3))).toEqual(ids)
    expect(await engine.dropConsumer(name)).toBe(true)
    expect(await engine.dropConsumer(name)).toBe(false)
    expect(await engine.consumer(name)).toBeUndefined()
    await refused(engine.seekConsumer(name, 'now'), 'JE002')
  })

  it('takes options that make sense', async () => {
    await engine.createConsumer('for.ever', { maxLag: null, start: 'beginning' })
    expect(await engine.consumer('for.ever')).toMatchObject({ maxLag: null, types: null })
    await refused(engine.createConsumer('two words'), 'JE003')
    await refused(engine.createConsumer('a', { max: 1 } as never), 'JE003')
    await refused(engine.consume('a', 'handler' as never), 'JE003')
    const { message } = await refused(engine.consume('a', undefined as never), 'JE003')
    expect(message).toBe('consume: handler must be a function')
    const never = new Date('x')
    await refused(engine.createConsumer('a', { start: never }), 'JE003')
    await refused(engine.seekConsumer('for.ever', never), 'JE003')
    await refused(engine.seekConsumer('for.ever', undefined as never), 'JE003')
    await refused(engine.follow({ after: never }).next(), 'JE003')
    expect(() => engine.subscribe('a', { lease: 10 })).toThrow(/lease must be at least 1000 ms/)
    await refused(engine.follow({ filter: { kinds: ['job.complete'] } }).next(), 'JE003')
    await refused(engine.follow({ after: 'yesterday' }).next(), 'JE003')
  })

  it('that does not exist is JE002, whoever wants to read it', async () => {
    await refused(engine.subscribe('nobody', quiet).next(), 'JE002')
    await refused(
      engine.consume('nobody', () => {}, quiet),
      'JE002',
    )
    await refused(engine.replayParked('nobody'), 'JE002')
    await refused(engine.discardParked('nobody'), 'JE002')
  })

  it('that has expired ends its readers with JE004', async () => {
    const name = freshType()
    await engine.createConsumer(name, { maxLag: '1h', start: 'beginning' })
    await put(await publishing(db(), name), 1)
    await moveClock(db(), '2 hours')
    await db().query('select fencepost_private.expire_consumers()')
    await refused(engine.subscribe(name, quiet).next(), 'JE004')
    await refused(
      engine.consume(name, () => {}, quiet),
      'JE004',
    )
  })
})

describe('subscribe', () => {
  it('gives all events in batches, in order, and ends with the signal', async () => {
    const name = await fresh()
    const ids = await put(name, 25)
    const stop = new AbortController()
    const seen: LogEvent[][] = []
    for await (const batch of engine.subscribe(name, { ...quiet, max: 10, signal: stop.signal })) {
      seen.push([...batch.events])
      await batch.ack()
      expect(batch.acknowledged).toBe(true)
      if (seen.flat().length === 25) stop.abort()
    }
    expect(jobsOf(seen.flat())).toEqual(ids)
    expect(seen.map(({ length }) => length)).toEqual([10, 10, 5])
    expect(seen[0]?.[0]).toMatchObject({ kind: 'job.enqueued', type: name, at: expect.any(Date) })
  })

  it('waits for what comes later', async () => {
    const name = await fresh()
    const reading = read(name, 2)
    const ids = await put(name, 2)
    expect(jobsOf(await reading)).toEqual(ids)
  })

  it('gives a batch again that was not acknowledged, and the rest of one that was in part', async () => {
    const name = await fresh()
    const ids = await put(name, 3)
    const seen: (number | null)[][] = []
    for await (const batch of engine.subscribe(name, quiet)) {
      seen.push(jobsOf(batch.events))
      if (seen.length === 2) await batch.ack({ upTo: batch.events[0] as LogEvent })
      if (seen.length === 3) break
    }
    expect(seen).toEqual([ids, ids, ids.slice(1)])
  })

  it('acknowledges in a transaction of the application, or not at all', async () => {
    const name = await fresh()
    const ids = await put(name, 2)
    await db().query('delete from ledger')
    let rounds = 0
    for await (const batch of engine.subscribe(name, quiet)) {
      const work = db().transaction(async (tx) => {
        for (const { id } of batch.events) {
          await tx.query('insert into ledger values ($1, $2)', [id, name])
        }
        await batch.ack({ tx })
        if (++rounds === 1) throw new Error('not this time')
      })
      if (rounds === 0) await expect(work).rejects.toThrow('not this time')
      else await work
      if (rounds === 2) break
    }
    expect(await ledger()).toHaveLength(ids.length)
    expect(await engine.consumer(name)).toMatchObject({ lagEvents: 0 })
  })

  it('gives way when its lease has ended: its late acknowledgement is refused with JE001', async () => {
    const name = await fresh()
    const ids = await put(name, 2)
    const slow = engine.subscribe(name, { ...quiet, reader: 'slow', lease: '1s' })
    const { value: batch } = (await slow.next()) as { value: EventBatch }
    expect(await engine.consumer(name)).toMatchObject({ reader: 'slow' })
    await moveClock(db(), '2 seconds')
    expect(jobsOf(await read(name, 2))).toEqual(ids)
    const more = await put(name, 1)
    // passed already, but by somebody else: what was done here is to be undone
    await refused(batch.ack(), 'JE001')
    await engine.seekConsumer(name, 'beginning')
    await refused(batch.ack(), 'JE001')
    await refused(batch.park(batch.events[0] as LogEvent, 'too late'), 'JE001')
    await slow.return()
    expect(jobsOf(await read(name, 3))).toEqual([...ids, ...more])
  })

  it('refuses what is no event of it, and to set one aside without a reason', async () => {
    const name = await fresh()
    await put(name, 1)
    for await (const batch of engine.subscribe(name, quiet)) {
      const [event] = batch.events as [LogEvent]
      for (const wrong of [{}, null, 'it', undefined] as never[]) {
        if (wrong !== undefined) await refused(batch.ack({ upTo: wrong }), 'JE003')
        await refused(batch.park(wrong, 'why'), 'JE003')
      }
      for (const reason of [undefined, null, 7, ' '] as never[]) {
        await refused(batch.park(event, reason), 'JE003')
      }
      expect(batch.acknowledged).toBe(false)
      break
    }
    expect(await engine.consumer(name)).toMatchObject({ lagEvents: 1, parked: 0 })
  })

  it('sets events aside, which come again when they are wanted', async () => {
    const name = await fresh()
    const [first, second] = await put(name, 2)
    for await (const batch of engine.subscribe(name, quiet)) {
      await batch.park(batch.events[0] as LogEvent, 'too large')
      await batch.ack()
      break
    }
    const [parked] = await engine.parkedEvents(name)
    expect(parked).toMatchObject({ consumer: name, jobId: first, reason: 'too large', times: 1 })
    expect(await engine.replayParked(name, [parked?.eventId ?? 0])).toBe(1)
    expect(jobsOf(await read(name, 1))).toEqual([first])
    expect(await engine.parkedEvents(name)).toEqual([])
    expect(await engine.discardParked(name)).toBe(0)
    expect(second).toBeGreaterThan(first as number)
  })
})

describe('consume', () => {
  /** Consumes until nothing is left. */
  async function consumed(
    name: string,
    handler: Parameters<Fencepost['consume']>[1],
    options: Parameters<Fencepost['consume']>[2] = {},
    from: Fencepost = engine,
  ): Promise<void> {
    const stop = new AbortController()
    const running = from.consume(name, handler, { ...quiet, ...options, signal: stop.signal })
    await Promise.race([caughtUp(name), running])
    stop.abort()
    await running
  }

  it('blames no event for transactions that met', async () => {
    const name = await fresh()
    await put(name, 2)
    let calls = 0
    await consumed(
      name,
      async (_events, tx) => {
        if (++calls < 3)
          await tx.query(`do $$ begin raise exception using errcode = '40P01'; end $$`)
      },
      { max: 1, maxAttempts: 1 },
    )
    expect(calls).toBeGreaterThan(2)
    expect(await engine.parkedEvents(name)).toEqual([])
  })

  it('commits what the handler writes with the acknowledgement, once', async () => {
    const name = await fresh()
    await put(name, 30)
    await db().query('delete from ledger')
    let calls = 0
    await consumed(
      name,
      async (events, tx) => {
        for (const { id } of events) {
          await tx.query('insert into ledger values ($1, $2)', [id, name])
        }
        if (++calls === 2) throw new Error('a bad day')
      },
      { max: 10 },
    )
    expect(calls).toBeGreaterThan(4)
    const ids = await ledger()
    expect(ids).toHaveLength(30)
    expect(new Set(ids).size).toBe(30)
  })

  it('finds the event that fails in its batch, tries it again, and parks it', async () => {
    const name = await fresh()
    const ids = await put(name, 9)
    const bad = ids[4] as number
    const done: (number | null)[] = []
    let alone = 0
    await consumed(
      name,
      (events) => {
        if (jobsOf(events).includes(bad)) {
          if (events.length === 1) alone++
          throw new Error('this one never works')
        }
        done.push(...jobsOf(events))
      },
      { maxAttempts: 3 },
    )
    expect(alone).toBe(3)
    expect(done).toEqual(ids.filter((id) => id !== bad))
    expect(await engine.parkedEvents(name)).toMatchObject([
      { jobId: bad, reason: 'this one never works' },
    ])
  })

  it('parks at once what its handler calls permanent', async () => {
    const name = await fresh()
    const [id] = await put(name, 1)
    let calls = 0
    await consumed(name, () => {
      calls++
      throw new PermanentError('no such account')
    })
    expect(calls).toBe(1)
    expect(await engine.parkedEvents(name)).toMatchObject([
      { jobId: id, reason: 'no such account' },
    ])
  })

  it('parks with a reason whatever its handler throws', async () => {
    const name = await fresh()
    const thrown = [
      new Error(' '),
      new Error('NUL \0 and half \ud83d'),
      '',
      undefined,
      Object.create(null),
      Symbol('odd'),
    ]
    const ids = await put(name, thrown.length)
    await consumed(
      name,
      ([event]) => {
        throw thrown[ids.indexOf(event?.jobId as number)]
      },
      { max: 1, maxAttempts: 1 },
    )
    const parked = await engine.parkedEvents(name)
    expect(parked.map(({ jobId }) => jobId)).toEqual(ids)
    expect(parked.map(({ reason }) => reason)).toEqual([
      'it failed',
      'NUL ␀ and half \ufffd',
      'the handler threw an empty text',
      'the handler threw undefined',
      'the handler threw an object: {}',
      'the handler threw Symbol(odd)',
    ])
  })

  it('goes on after its connections were killed, at any time, without losing or repeating', async () => {
    const name = await fresh()
    await db().query('delete from ledger')
    await using elsewhere = new Fencepost({ url: database.url, applicationName: 'mortal' })
    let kills = 0
    await put(name, 40)
    await consumed(
      name,
      async (events, tx) => {
        for (const { id } of events) {
          await tx.query('insert into ledger values ($1, $2)', [id, name])
        }
        if (kills++ < 3) {
          await db().query(
            `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'mortal' and datname = current_database()`,
          )
        }
      },
      { max: 10 },
      elsewhere,
    )
    const ids = await ledger()
    expect(ids).toHaveLength(40)
    expect(new Set(ids).size).toBe(40)
  })

  it('lets one process at a time work, and another take over', async () => {
    const name = await fresh()
    await put(name, 6)
    const seen: string[] = []
    let inside = 0
    const worker = (who: string) => async (events: readonly LogEvent[]) => {
      expect(++inside).toBe(1)
      await Promise.resolve()
      seen.push(...events.map(() => who))
      inside--
    }
    const stop = new AbortController()
    const both = ['one', 'two'].map((who) =>
      engine.consume(name, worker(who), { ...quiet, max: 1, signal: stop.signal }),
    )
    await caughtUp(name)
    stop.abort()
    await Promise.all(both)
    expect(seen).toHaveLength(6)
  })

  it('ends with its engine, after the transaction under way', async () => {
    const name = await fresh()
    await put(name, 1)
    await db().query('delete from ledger')
    const own = new Fencepost({ url: database.url })
    let closed: Promise<void> | undefined
    const running = own.consume(
      name,
      async (events, tx, signal) => {
        closed = own.close()
        expect(signal.aborted).toBe(true)
        await tx.query('insert into ledger values ($1, $2)', [events[0]?.id, name])
      },
      quiet,
    )
    await running
    await closed
    expect(await ledger()).toHaveLength(1)
  })
})

describe('follow', () => {
  it('gives events from a position on, without a gap', async () => {
    const name = await fresh()
    const filter = { types: [name] }
    const ids = await put(name, 5)
    const first: LogEvent[] = []
    for await (const event of engine.follow({ ...quiet, filter, after: 'beginning', max: 2 })) {
      first.push(event)
      if (first.length === 3) break
    }
    const after = first[2]?.position ?? ''
    const rest: LogEvent[] = []
    for await (const event of engine.follow({ ...quiet, filter, after })) {
      rest.push(event)
      if (rest.length === 2) break
    }
    expect(jobsOf([...first, ...rest])).toEqual(ids)
  })

  it('begins now, unless told otherwise, and ends with the signal', async () => {
    const name = await fresh()
    await put(name, 1)
    const stop = new AbortController()
    await using own = new Fencepost({ url: database.url, applicationName: name.slice(0, 63) })
    const following = own.follow({ ...quiet, filter: { types: [name] }, signal: stop.signal })
    const next = following.next()
    const looks = `select count(*) from pg_stat_activity where application_name = $1 and query like '%list_events%'`
    await expect.poll(() => one(db(), looks, [name.slice(0, 63)])).toBeGreaterThan(0)
    const ids = await put(name, 1)
    expect((await next).value).toMatchObject({ jobId: ids[0] })
    stop.abort()
    expect(await following.next()).toEqual({ done: true, value: undefined })
  })
})

describe('a network that fails', () => {
  let proxy: TcpProxy
  let remote: Fencepost
  beforeAll(async () => {
    proxy = await startProxy(database.url)
    remote = new Fencepost({ url: proxy.url })
  })
  afterAll(async () => {
    await remote.close()
    await proxy.close()
  })

  it('is survived by a subscription, and by an acknowledgement under way', async () => {
    const name = await fresh()
    const ids = await put(name, 6)
    const seen: (number | null)[] = []
    for await (const batch of remote.subscribe(name, { ...quiet, max: 2, reader: 'r' })) {
      seen.push(...jobsOf(batch.events))
      proxy.reset()
      await batch.ack()
      proxy.reset()
      if (seen.length >= 6) break
    }
    expect(seen).toEqual(ids)
  })

  it('is survived by one who follows', async () => {
    const name = await fresh()
    const ids = await put(name, 3)
    const filter = { types: [name] }
    const seen: (number | null)[] = []
    for await (const event of remote.follow({ ...quiet, filter, after: 'beginning', max: 1 })) {
      seen.push(event.jobId)
      proxy.reset()
      if (seen.length === 3) break
    }
    expect(seen).toEqual(ids)
  })
})
