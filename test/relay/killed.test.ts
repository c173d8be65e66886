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

/** How often the relay is killed. */
const KILLS = 8

it('a relay that is killed again and again leaves no gap, and repeats itself only with equal ids', async () => {
  const { cluster, database } = stage
  const random = new Random()
  console.log(`FENCEPOST_SEED=${random.seed}`)
  await cluster.topic('jobs', 3)
  await cluster.slow(20) // so that many a kill hits a request under way
  const start = () =>
    spawnCli(
      [
        ...['relay', 'kafka', '--consumer', 'killed', '--brokers', cluster.brokers],
        ...['--topic', 'jobs', '--from', 'beginning', '--max', '7', '--lease', '1s'],
      ],
      { DATABASE_URL: database.url },
    )
  const types = [await stage.lives(10)]
  for (let kill = 0; kill < KILLS; kill++) {
    const relay = start()
    await relay.says(/the relay to Kafka begins/)
    types.push(await stage.lives(5))
    await after(random.between(0, 500))
    relay.child.kill('SIGKILL')
    await relay.ended
  }
  const last = start()
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
