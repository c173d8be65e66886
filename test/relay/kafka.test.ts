import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { answers, apis, BUILD_TIMEOUT, type Received } from '../support/kafka/cluster.ts'
import { column } from '../support/sql.ts'
import { byKey, once, Stage } from './stage.ts'

let stage: Stage
beforeEach(async (context) => {
  stage = await Stage.open(context)
}, BUILD_TIMEOUT)
afterEach(() => stage?.[Symbol.asyncDispose]())

/** Every event is there, and those of each key in their order; repetitions have equal ids. */
function expectComplete(received: readonly Received[], ids: readonly number[]): void {
  expect(
    once(received)
      .map(({ eventId }) => eventId)
      .sort((a, b) => a - b),
  ).toEqual(ids)
  for (const inOrder of byKey(received).values()) {
    expect(inOrder).toEqual(inOrder.toSorted((a, b) => a - b))
  }
}

it('publishes each event once, in order for each job, to the topic of its kind, with its id', async () => {
  const consumer = await stage.consumer('all')
  const type = await stage.lives(20, { answer: 42 })
  await using _ = stage.relay({ consumer, topic: 'fencepost.{kind}' })
  const received = await stage.arrived(consumer)
  const ids = await stage.eventIds(type)
  const ours = received.filter(({ headers }) => headers['fencepost-type'] === type)
  expect(ours.map(({ eventId }) => eventId).sort((a, b) => a - b)).toEqual(ids)

  const completed = ours.filter(({ topic }) => topic === 'fencepost.job.completed')
  expect(completed).toHaveLength(20)
  const [first] = completed
  const event = JSON.parse(first?.value ?? '')
  expect(first).toMatchObject({
    key: `job:${event.job_id}`,
    headers: {
      'fencepost-event-id': String(event.id),
      'fencepost-kind': 'job.completed',
      'fencepost-type': type,
      'content-type': 'application/json',
    },
  })
  expect(event).toMatchObject({
    kind: 'job.completed',
    type,
    outcome: 'completed',
    worker: 'worker-1',
    data: { answer: 42 },
    at: expect.stringMatching(/^\d{4}-.*Z$/),
  })
  expect(event).not.toHaveProperty('position')
})

it('keeps the order of each key in a topic of several partitions', async () => {
  const consumer = await stage.consumer('ordered')
  await stage.cluster.topic('jobs', 5)
  const type = await stage.lives(30)
  await using _ = stage.relay({ consumer, topic: 'jobs', max: 7 })
  const received = (await stage.arrived(consumer)).filter(
    ({ headers }) => headers['fencepost-type'] === type,
  )
  expectComplete(received, await stage.eventIds(type))
  expect(received).toHaveLength(once(received).length)
  expect(new Set(received.map(({ partition }) => partition)).size).toBeGreaterThan(1)
  for (const place of byKey(received).keys()) {
    const same = received.filter(({ topic, key }) => place === `${topic} ${key}`)
    expect(new Set(same.map(({ partition }) => partition)).size).toBe(1)
  }
})

describe('what may pass is repeated until it has', () => {
  it.each([
    ['no leader', [answers.notLeader, answers.notLeader]],
    ['too few replicas', Array(12).fill(answers.notEnoughReplicas)],
    ['time-outs of the broker', Array(6).fill(answers.timedOut)],
    ['not allowed in the cluster', [answers.clusterAuthorizationFailed]],
  ])('%s', async (_name, errors) => {
    const consumer = await stage.consumer('patient')
    const type = await stage.lives(10)
    await stage.cluster.answer(apis.produce, ...errors)
    await using _ = stage.relay({ consumer, topic: 'jobs', max: 5 })
    const received = await stage.arrived(consumer)
    expectComplete(
      received.filter(({ headers }) => headers['fencepost-type'] === type),
      await stage.eventIds(type),
    )
    expect(await stage.stands(consumer, 'parked')).toBe(0)
  })

  it('connections that are cut instead of answered', async () => {
    const consumer = await stage.consumer('cut')
    const type = await stage.lives(10)
    await stage.cluster.cut(apis.produce, 9)
    await using relay = stage.relay({ consumer, topic: 'jobs', max: 5 })
    const received = await stage.arrived(consumer)
    expectComplete(
      received.filter(({ headers }) => headers['fencepost-type'] === type),
      await stage.eventIds(type),
    )
    expect(relay.health).toMatchObject({ parked: 0, failures: 0 })
  })

  it('a cluster that is down, and comes back', async () => {
    const consumer = await stage.consumer('outage')
    await using relay = stage.relay({ consumer, topic: 'jobs' })
    const before = await stage.lives(5)
    await stage.arrived(consumer)
    await stage.cluster.down()
    const during = await stage.lives(5)
    await expect.poll(() => relay.health.state).toBe('retrying')
    expect(relay.health.lastError).toBeInstanceOf(Error)
    expect(await stage.stands<number>(consumer, 'lag_events')).toBeGreaterThan(0)
    await stage.cluster.up()
    const received = await stage.arrived(consumer)
    const ids = [...(await stage.eventIds(before)), ...(await stage.eventIds(during))]
    expectComplete(
      received.filter(({ headers }) => [before, during].includes(headers['fencepost-type'] ?? '')),
      ids,
    )
    expect(relay.health.failures).toBe(0)
  })

  it('a topic that we may not write to: its events wait, and the log tells why', async () => {
    const consumer = await stage.consumer('denied', { kinds: ['job.*'] })
    const type = await stage.lives(3)
    await stage.cluster.topic('t.job.started', 1)
    await stage.cluster.refuseTopic('t.job.started', answers.topicAuthorizationFailed)
    const config = ['patience=1ms']
    await using relay = stage.relay({ consumer, topic: 't.{kind}', config })
    await expect.poll(() => relay.health.failures).toBeGreaterThan(2)
    const why = /^Kafka, one of the topics .*t\.job\.started.*: TOPIC_AUTHORIZATION_FAILED: /
    expect(relay.health).toMatchObject({ state: 'retrying', published: 0, parked: 0 })
    expect(relay.health.lastError?.message).toMatch(why)
    expect(stage.log).toContainEqual(
      expect.objectContaining({
        level: 40,
        error: expect.objectContaining({ message: expect.stringMatching(why) }),
      }),
    )
    await stage.cluster.refuseTopic('t.job.started', answers.good)
    const received = await stage.arrived(consumer)
    expectComplete(
      received.filter(({ headers }) => headers['fencepost-type'] === type),
      await stage.eventIds(type),
    )
    expect(await stage.stands(consumer, 'parked')).toBe(0)
  })

  it('a cluster that is slower than we wait', async () => {
    const consumer = await stage.consumer('slow')
    const type = await stage.lives(5)
    await stage.cluster.slow(1_500)
    await using relay = stage.relay({ consumer, topic: 'jobs', config: ['send-timeout=500ms'] })
    await expect.poll(() => relay.health.failures).toBeGreaterThan(1)
    expect(relay.health.lastError?.message).toContain('500 ms')
    await stage.cluster.slow(0)
    const received = await stage.arrived(consumer)
    expectComplete(
      received.filter(({ headers }) => headers['fencepost-type'] === type),
      await stage.eventIds(type),
    )
  })

  it('partitions whose leader moves', async () => {
    const consumer = await stage.consumer('moved')
    await stage.cluster.topic('jobs', 3)
    await using _ = stage.relay({ consumer, topic: 'jobs', max: 3 })
    const types: string[] = []
    for (const leader of [1, 2, 3]) {
      for (const partition of [0, 1, 2]) await stage.cluster.moveLeader('jobs', partition, leader)
      types.push(await stage.lives(4))
    }
    const received = await stage.arrived(consumer)
    const ids = (await Promise.all(types.map((type) => stage.eventIds(type)))).flat()
    expectComplete(
      received.filter(({ headers }) => types.includes(headers['fencepost-type'] ?? '')),
      ids,
    )
  })
})

describe('what never will be taken is parked, and the rest goes on', () => {
  const tooLarge = answers.messageTooLarge

  it('a message that is too large, found among eight, and replayed', async () => {
    const consumer = await stage.consumer('large', { kinds: ['job.completed'] })
    const type = await stage.lives(8)
    await stage.cluster.topic('jobs', 1)
    // All eight, the first four, the first two, and the second of them alone.
    await stage.cluster.answer(apis.produce, tooLarge, tooLarge, tooLarge, answers.good, tooLarge)
    await using relay = stage.relay({ consumer, topic: 'jobs' })
    const received = await stage.arrived(consumer)
    const ids = received.filter(({ headers }) => headers['fencepost-type'] === type)
    expect(ids).toHaveLength(7)
    expect(await stage.stands(consumer, 'parked')).toBe(1)
    const [parked] = await stage.database.db.query<{ event_id: number; reason: string }>(
      'select event_id, reason from fencepost.parked_events where consumer = $1',
      [consumer],
    )
    expect(parked?.reason).toMatch(/topic jobs: MESSAGE_TOO_LARGE/)
    expect(ids.map(({ eventId }) => eventId)).not.toContain(parked?.event_id)
    expect(relay.health).toMatchObject({ published: 7, parked: 1 })
    expect(stage.log).toContainEqual(
      expect.objectContaining({ level: 50, event: parked?.event_id, reason: parked?.reason }),
    )

    await stage.database.db.query('select fencepost.replay_parked($1)', [consumer])
    await expect.poll(() => relay.health.published).toBe(8)
    expect(await stage.stands(consumer, 'parked')).toBe(0)
    const all = (await stage.cluster.read()).map(({ eventId }) => eventId)
    expect(all).toContain(parked?.event_id)
  })

  it('one larger than any broker reads, without sending it', async () => {
    const consumer = await stage.consumer('huge', { kinds: ['job.completed'] })
    await stage.lives(1, 'x'.repeat(3_000))
    await stage.lives(2)
    await using relay = stage.relay({ consumer, topic: 'jobs', config: ['message-bytes=2000'] })
    expect(await stage.arrived(consumer)).toHaveLength(2)
    expect(relay.health.parked).toBe(1)
    expect(await reasons(consumer)).toEqual([
      expect.stringMatching(/^Kafka: .* bytes, more than message-bytes$/),
    ])
  })

  it('a topic that brokers find invalid', async () => {
    const consumer = await stage.consumer('refused', { kinds: ['job.*'] })
    const type = await stage.lives(3)
    await stage.cluster.topic('t.job.started', 1)
    await stage.cluster.refuseTopic('t.job.started', answers.invalidTopic)
    await using relay = stage.relay({ consumer, topic: 't.{kind}' })
    const received = await stage.arrived(consumer)
    const started = await column<number>(
      stage.database.db,
      "select id from fencepost_private.event where kind = 'job.started' order by id",
    )
    const ids = (await stage.eventIds(type)).filter((id) => !started.includes(id))
    expectComplete(received, ids)
    expect(relay.health.parked).toBe(started.length)
    for (const reason of await reasons(consumer))
      expect(reason).toContain('INVALID_TOPIC_EXCEPTION')
  })

  it('a topic that does not exist, once the patience is over; others go on, and it is replayed when it exists', async () => {
    const consumer = await stage.consumer('missing', { kinds: ['job.completed', 'job.started'] })
    const type = await stage.lives(3)
    await stage.cluster.topic('t.job.completed', 1)
    await stage.cluster.topic('t.job.started', 1)
    await stage.cluster.refuseTopic('t.job.started', answers.unknownTopic)
    await using relay = stage.relay({ consumer, topic: 't.{kind}', config: ['patience=700ms'] })
    await stage.arrived(consumer)
    expect(stage.log).toContainEqual(expect.objectContaining({ level: 40, failures: 1 }))
    expect(relay.health.parked).toBeGreaterThan(0)
    const { parked } = relay.health
    await stage.lives(1)
    await stage.arrived(consumer)
    expect(relay.health.parked).toBe(parked + 2) // at once: it is known to be missing

    await stage.cluster.refuseTopic('t.job.started', answers.good)
    await stage.database.db.query('select fencepost.replay_parked($1)', [consumer])
    await expect.poll(() => stage.stands(consumer, 'parked')).toBe(0)
    const received = (await stage.cluster.read()).filter(
      ({ headers }) => headers['fencepost-type'] === type,
    )
    expect(new Set(received.map(({ topic }) => topic))).toEqual(
      new Set(['t.job.completed', 't.job.started']),
    )
  })

  function reasons(consumer: string): Promise<string[]> {
    return column(
      stage.database.db,
      'select reason from fencepost.parked_events where consumer = $1 order by event_id',
      [consumer],
    )
  }
})
