import { once } from 'node:events'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { connect } from '../../src/database/database.ts'
import type { OutboxEvent } from '../../src/database/engine.ts'
import * as engine from '../../src/database/engine.ts'
import type { Refused, Sink } from '../../src/relay/sink.ts'
import { startProxy } from '../support/proxy.ts'
import { refused } from '../support/sql.ts'
import { rests, Stage } from './stage.ts'

// The loop itself, with a sink that the test holds in its hands. What it does to Kafka is tested in kafka.test.ts.

let stage: Stage
beforeEach(async () => {
  stage = await Stage.withoutCluster()
})
afterEach(() => stage[Symbol.asyncDispose]())

/** Keeps what it is given, and does what the test says with it. */
class Hand implements Sink {
  readonly name = 'hand'
  readonly taken: number[] = []
  closed = false
  /** What becomes of the next batches; by default all are taken. */
  act: (events: readonly OutboxEvent[], signal: AbortSignal) => Promise<readonly Refused[]> =
    async () => []

  async publish(events: readonly OutboxEvent[], signal: AbortSignal): Promise<readonly Refused[]> {
    const given = await this.act(events, signal)
    this.taken.push(...events.map(({ id }) => id))
    return given
  }

  async close(): Promise<void> {
    this.closed = true
  }

  /** Holds the next batches until it is let go. */
  hold(): { began: Promise<void>; go(): void } {
    let begin = () => {}
    let go = () => {}
    const began = new Promise<void>((resolve) => {
      begin = resolve
    })
    const gone = new Promise<void>((resolve) => {
      go = resolve
    })
    this.act = async () => {
      begin()
      await gone
      return []
    }
    return { began, go: () => go() }
  }
}

const passed = (consumer: string) => expect.poll(() => stage.stands(consumer, 'lag_events')).toBe(0)

it('acknowledges nothing before the sink holds it, and gives the same again after a failure', async () => {
  const consumer = await stage.consumer('careful')
  const type = await stage.lives(4)
  const sink = new Hand()
  const seen: number[][] = []
  sink.act = async (events) => {
    seen.push(events.map(({ id }) => id))
    if (seen.length < 4) throw new Error('not yet')
    return []
  }
  await using relay = stage.relay({ consumer, sink, max: 5 })
  await passed(consumer)
  await rests(relay)
  const ids = await stage.eventIds(type)
  expect(seen.slice(0, 4)).toEqual(Array(4).fill(ids.slice(0, 5)))
  expect(sink.taken).toEqual(ids)
  expect(relay.health).toMatchObject({ published: ids.length, failures: 0 })
  const told = stage.log.filter(({ level }) => level === 40).map(({ failures }) => failures)
  expect(told).toEqual([1, 2]) // of a row of failures the 1st, 2nd, 4th, 8th … are told
  expect(stage.log).toContainEqual(expect.objectContaining({ msg: 'publishing goes on' }))
})

it('ends a batch before its lease ends, so that nothing of it follows what another relay publishes', async () => {
  const consumer = await stage.consumer('slow')
  await stage.lives(2)
  const sink = new Hand()
  let aborted = 0
  sink.act = (_events, signal) =>
    aborted > 0
      ? Promise.resolve([])
      : new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            aborted += 1
            reject(signal.reason)
          })
        })
  const startedAt = performance.now()
  await using relay = stage.relay({ consumer, sink, lease: 1_000 })
  await passed(consumer)
  await rests(relay)
  expect(aborted).toBe(1)
  expect(performance.now() - startedAt).toBeGreaterThan(500)
  expect(relay.health).toMatchObject({ failures: 0 })
})

it('asked to stop, it lets the batch under way end, and reads no other', async () => {
  const consumer = await stage.consumer('drained')
  const type = await stage.lives(4)
  const sink = new Hand()
  const held = sink.hold()
  const relay = stage.relay({ consumer, sink, max: 5 })
  await held.began
  const stopping = relay.stop()
  held.go()
  await stopping
  await relay.run()
  const ids = await stage.eventIds(type)
  expect(sink.taken).toEqual(ids.slice(0, 5))
  expect(sink.closed).toBe(true)
  expect(relay.health.state).toBe('stopped')
  // Nobody holds the lease: the next one begins at once, behind what was acknowledged.
  const next = new Hand()
  await using _ = stage.relay({ consumer, sink: next })
  await passed(consumer)
  expect(next.taken).toEqual(ids.slice(5))
})

it('gives up a batch that takes longer than the deadline of a stop', async () => {
  const consumer = await stage.consumer('stuck')
  await stage.lives(1)
  const sink = new Hand()
  let begin = () => {}
  const began = new Promise<void>((resolve) => {
    begin = resolve
  })
  sink.act = async (_events, signal) => {
    begin()
    await once(signal, 'abort')
    throw signal.reason
  }
  const relay = stage.relay({ consumer, sink, stopDeadline: 100 })
  await began
  await relay.stop()
  expect(sink.taken).toEqual([])
  expect(await stage.stands<number>(consumer, 'lag_events')).toBeGreaterThan(0)
  expect(stage.log).toContainEqual(
    expect.objectContaining({ level: 40, msg: expect.stringMatching(/took too long/) }),
  )
})

it('parks what the sink refuses, before the position passes it', async () => {
  const consumer = await stage.consumer('choosy', { kinds: ['job.completed'] })
  await stage.lives(6)
  const sink = new Hand()
  sink.act = async (events) =>
    events
      .filter(({ id }) => id % 2 === 0)
      .map((event) => ({ event, reason: `${event.id} is even` }))
  await using relay = stage.relay({ consumer, sink })
  await passed(consumer)
  await rests(relay)
  const parked = await engine.parkedEvents(stage.database.db, consumer)
  expect(parked.length).toBe(relay.health.parked)
  for (const { event_id, reason } of parked) expect(reason).toBe(`${event_id} is even`)

  sink.act = async () => []
  expect(await engine.replayParked(stage.database.db, consumer)).toBe(parked.length)
  await expect.poll(() => stage.stands(consumer, 'parked')).toBe(0)
  const ids = parked.map(({ event_id }) => event_id)
  expect(sink.taken.slice(-ids.length)).toEqual(ids)
})

it('parks for any reason, also one that cannot be stored as it is', async () => {
  const consumer = await stage.consumer('odd', { kinds: ['job.completed'] })
  await stage.lives(3)
  const sink = new Hand()
  const reasons = [' ', 'a NUL: \0', 'half a pair: \ud83d']
  sink.act = async (events) =>
    events.map((event, index) => ({ event, reason: reasons[index] as string }))
  await using _ = stage.relay({ consumer, sink })
  await passed(consumer)
  const parked = await engine.parkedEvents(stage.database.db, consumer)
  expect(parked.map(({ reason }) => reason)).toEqual([
    'it failed',
    'a NUL: ␀',
    'half a pair: \ufffd',
  ])
})

it('two relays of one consumer: the second takes over from one that froze, which then does no harm', async () => {
  const consumer = await stage.consumer('pair')
  const type = await stage.lives(6)
  const first = new Hand()
  const held = first.hold()
  await using frozen = stage.relay({ consumer, sink: first, max: 4, lease: 1_000 })
  await held.began
  const second = new Hand()
  await using _ = stage.relay({ consumer, sink: second, max: 4 })
  await passed(consumer)
  const ids = await stage.eventIds(type)
  expect(second.taken).toEqual(ids)
  held.go()
  await rests(frozen)
  expect(first.taken).toEqual(ids.slice(0, 4))
})

it('an acknowledgement after the consumer was moved is refused, and it reads from there', async () => {
  const consumer = await stage.consumer('moved')
  const type = await stage.lives(2)
  const sink = new Hand()
  const held = sink.hold()
  await using _ = stage.relay({ consumer, sink })
  await held.began
  await engine.seekConsumer(stage.database.db, consumer, 'beginning')
  held.go()
  await passed(consumer)
  const ids = await stage.eventIds(type)
  expect(sink.taken).toEqual([...ids, ...ids])
  expect(stage.log).toContainEqual(
    expect.objectContaining({ level: 40, error: expect.objectContaining({ code: 'JE001' }) }),
  )
})

it.each([
  ['is dropped', 'JE002', 'select fencepost.drop_consumer($1)'],
  [
    'fell too far behind',
    'JE004',
    'update fencepost_private.consumer set expired_at = now() where name = $1',
  ],
])('ends with what to do when the consumer %s', async (_name, code, statement) => {
  const consumer = await stage.consumer('gone')
  const sink = new Hand()
  const relay = stage.relay({ consumer, sink })
  await rests(relay)
  await stage.database.db.query(statement, [consumer])
  await refused(relay.run(), code)
  expect(sink.closed).toBe(true)
})

it('goes on when the database does: connections reset, sessions killed', async () => {
  const consumer = await stage.consumer('mended')
  await using proxy = await startProxy(stage.database.url)
  await using db = connect({ url: proxy.url, applicationName: 'relay of a test' })
  const sink = new Hand()
  await using relay = stage.relay({ consumer, sink, db })
  const types = [await stage.lives(2)]
  await passed(consumer)
  proxy.reset()
  await stage.database.db.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where application_name = 'relay of a test' and datname = current_database()`,
  )
  types.push(await stage.lives(2))
  await passed(consumer)
  await rests(relay)
  const ids = (await Promise.all(types.map((type) => stage.eventIds(type)))).flat()
  expect([...new Set(sink.taken)]).toEqual(ids)
  expect(relay.health.failures).toBe(0)
})
