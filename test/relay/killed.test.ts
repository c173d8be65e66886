import { setTimeout as after } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { spawnCli } from '../cli/cli.ts'
import { Random } from '../faults/random.ts'
import { BUILD_TIMEOUT } from '../support/kafka/cluster.ts'
import { byKey, once, Stage } from './stage.ts'

let stage: Stage
beforeEach(async (context) => {
  stage = await Stage.open(context)
}, BUILD_TIMEOUT)
afterEach(() => stage?.[Symbol.asyncDispose]())

/** A relay in a process of its own, whose lease is short: a batch has four fifths of it, a successor waits for its end. */
function startRelay(consumer: string, lease = '1s') {
  return spawnCli(
    [
      ...['relay', 'kafka', '--consumer', consumer, '--brokers', stage.cluster.brokers],
      ...['--topic', 'jobs', '--start', 'beginning', '--max', '7', '--lease', lease],
    ],
    { DATABASE_URL: stage.database.url },
  )
}

/** How often the relay is killed. */
const KILLS = 8

it('a relay that is killed again and again leaves no gap, and repeats itself only with equal ids', async () => {
  const { cluster } = stage
  const random = new Random()
  console.log(`FENCEPOST_SEED=${random.seed}`)
  await cluster.topic('jobs', 3)
  await cluster.slow(20) // so that many a kill hits a request under way
  const types = [await stage.lives(10)]
  for (let kill = 0; kill < KILLS; kill++) {
    const relay = startRelay('killed')
    await relay.says(/the relay to Kafka begins/)
    types.push(await stage.lives(5))
    await after(random.between(0, 500))
    relay.child.kill('SIGKILL')
    await relay.ended
  }
  const last = startRelay('killed')
  const received = await stage.arrived('killed')
  last.child.kill('SIGTERM')
  expect(await last.ended).toMatchObject({ code: 0, err: '' })

  const ours = received.filter(({ headers }) => types.includes(headers['fencepost-type'] ?? ''))
  const ids = (await Promise.all(types.map((type) => stage.eventIds(type)))).flat()
  expect(
    once(ours)
      .map(({ eventId }) => eventId)
      .sort((a, b) => a - b),
  ).toEqual(ids)
  for (const inOrder of byKey(ours).values()) {
    expect(inOrder).toEqual(inOrder.toSorted((a, b) => a - b))
  }
  const values = new Map<number, string>()
  for (const { eventId, value } of ours) {
    expect(values.get(eventId) ?? value).toBe(value)
    values.set(eventId, value)
  }
}, 120_000)

it('killed after the brokers have acknowledged and before it has: the same events come again, as they were', async () => {
  const { cluster, database } = stage
  const consumer = await stage.consumer('between')
  await cluster.topic('jobs', 1)
  await stage.lives(2)
  await cluster.slow(300) // there is time for what follows
  const relay = startRelay(consumer, '6s')
  await expect.poll(() => stage.stands(consumer, 'reader')).not.toBeNull()
  // Whoever acknowledges waits for this transaction.
  await database.db.transaction(async (tx) => {
    await tx.query(
      `select pg_advisory_xact_lock(fencepost_private.lock_consumer(), consumer_id)
       from fencepost_private.consumer where name = $1`,
      [consumer],
    )
    await expect.poll(() => cluster.read(), { interval: 10 }).not.toEqual([])
    relay.child.kill('SIGKILL')
    await relay.ended
    // The server has not noticed, and would go on with its last statement.
    await tx.query(
      `select pg_terminate_backend(pid, 5000) from pg_stat_activity
       where datname = current_database() and application_name = 'fencepost relay kafka'`,
    )
  })
  await cluster.slow(0)
  const first = await cluster.read()
  const next = startRelay(consumer)
  const received = await stage.arrived(consumer)
  next.child.kill('SIGTERM')
  await next.ended
  expect(received.slice(0, first.length)).toEqual(first)
  const again = received.slice(first.length, 2 * first.length)
  const plain = ({ offset: _, ...message }: (typeof first)[number]) => message
  expect(again.map(plain)).toEqual(first.map(plain))
  expect(once(received)).toHaveLength(received.length - first.length)
})
