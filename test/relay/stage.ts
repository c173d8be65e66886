import * as kafka from '@platformatic/kafka'
import { expect, type TestContext } from 'vitest'
import type { Database } from '../../src/database/database.ts'
import { type Broker, brokerOf } from '../../src/relay/kafka/broker.ts'
import { kafkaSettings } from '../../src/relay/kafka/settings.ts'
import { TopicTemplate } from '../../src/relay/kafka/topic.ts'
import { KafkaSink } from '../../src/relay/kafka.ts'
import { Relay } from '../../src/relay/relay.ts'
import type { Sink } from '../../src/relay/sink.ts'
import { createLogger } from '../../src/telemetry/logger.ts'
import { claimOne, complete, enqueue, fail, freshType, settings } from '../support/engine.ts'
import { MockCluster, type Received, requiredCluster } from '../support/kafka/cluster.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { column, one } from '../support/sql.ts'

/** How a relay of a test is run. */
export interface RelayPlan {
  readonly consumer: string
  readonly topic?: string
  readonly config?: readonly string[]
  readonly max?: number
  readonly sink?: Sink
  readonly lease?: number
  readonly stopDeadline?: number
  /** Default: that of the stage. */
  readonly db?: Database
}

/** A database, a mock cluster if it is wanted, and relays between them. */
export class Stage implements AsyncDisposable {
  readonly database: TestDatabase
  readonly #cluster: MockCluster | undefined
  /** What relays logged. */
  readonly log: Record<string, unknown>[] = []
  readonly #relays = new Set<Relay>()
  /** Why relays ended that should not have. */
  readonly #ends: unknown[] = []

  private constructor(database: TestDatabase, cluster?: MockCluster) {
    this.database = database
    this.#cluster = cluster
  }

  get cluster(): MockCluster {
    if (this.#cluster === undefined) throw new Error('this stage has no cluster')
    return this.#cluster
  }

  static async withoutCluster(): Promise<Stage> {
    return new Stage(await testDatabase())
  }

  static async open(context: Pick<TestContext, 'skip'>): Promise<Stage> {
    const program = requiredCluster(context)
    return new Stage(await testDatabase(), await MockCluster.start(program))
  }

  /** A consumer that begins here. */
  async consumer(name: string, filter: object = {}): Promise<string> {
    await this.database.db.query('select fencepost.create_consumer($1, $2::text::jsonb)', [
      name,
      JSON.stringify(filter),
    ])
    return name
  }

  /** Jobs of a type of their own that tell all of their lives: enqueued, started, and how they ended. */
  async lives(count: number, result?: unknown): Promise<string> {
    const { db } = this.database
    const type = freshType('relay')
    await settings(db, type, {
      publish_enqueued: true,
      publish_started: true,
      max_attempts: 2,
      backoff_base: '0',
    })
    for (let n = 0; n < count; n++) {
      await enqueue(db, type)
      const job = await claimOne(db, type)
      if (n % 5 === 0) await fail(db, job)
      await complete(db, n % 5 === 0 ? await claimOne(db, type) : job, result)
    }
    return type
  }

  /** Waits until the consumer has passed all events and its relay knows that, and gives what arrived. */
  async arrived(consumer: string): Promise<Received[]> {
    const lag = async () => {
      if (this.#ends.length > 0) throw this.#ends[0]
      return await this.stands(consumer, 'lag_events')
    }
    await expect.poll(lag).toBe(0)
    for (const relay of this.#relays) await rests(relay)
    return await this.cluster.read()
  }

  /** Ids of all events of a type, in their order. */
  eventIds(type: string): Promise<number[]> {
    return column(
      this.database.db,
      `select e.id from fencepost_private.event e
       join fencepost_private.lane l on l.lane_id = e.lane_id join fencepost_private.job_type t on t.type_id = l.type_id
       where t.type = $1 order by e.id`,
      [type],
    )
  }

  /** What a view says of a consumer. */
  stands<Value>(consumer: string, what: string): Promise<Value> {
    return one<Value>(this.database.db, `select ${what} from fencepost.consumers where name = $1`, [
      consumer,
    ])
  }

  sink(plan: Pick<RelayPlan, 'topic' | 'config'> = {}): KafkaSink {
    return new KafkaSink(kafka, {
      brokers: this.cluster.brokers.split(',').map((each) => brokerOf(each) as Broker),
      clientId: 'test',
      topics: new TopicTemplate(plan.topic ?? 'fencepost.{kind}'),
      settings: kafkaSettings(plan.config ?? [], {}),
    })
  }

  /** Starts a relay; it stops when it is disposed of. */
  relay(plan: RelayPlan): Relay & AsyncDisposable {
    const relay = new Relay({
      db: plan.db ?? this.database.db,
      sink: plan.sink ?? this.sink(plan),
      consumer: plan.consumer,
      log: createLogger({ level: 'debug', destination: { write: (text) => this.#logged(text) } }),
      max: plan.max ?? 500,
      lease: plan.lease ?? 30_000,
      poll: 100,
      stopDeadline: plan.stopDeadline ?? 10_000,
    })
    relay.run().catch((error) => this.#ends.push(error))
    this.#relays.add(relay)
    return Object.assign(relay, {
      [Symbol.asyncDispose]: () => {
        this.#relays.delete(relay)
        return relay.stop()
      },
    })
  }

  #logged(text: string): void {
    for (const line of text.trim().split('\n')) this.log.push(JSON.parse(line))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#cluster?.[Symbol.asyncDispose]()
    await this.database.drop()
  }
}

/** Waits until a relay has found nothing more: what it tells of itself then tells of all that it did. */
export async function rests(relay: Relay): Promise<void> {
  await expect.poll(() => relay.health.state).toBe('idle')
}

/** Received messages without repetitions of an event, as a consumer that knows ids takes them. */
export function once(received: readonly Received[]): Received[] {
  const seen = new Set<number>()
  return received.filter(({ eventId }) => !seen.has(eventId) && seen.add(eventId))
}

/** The ids of events of each key in a topic, in the order in which a consumer that knows ids takes them. */
export function byKey(received: readonly Received[]): Map<string, number[]> {
  const keys = new Map<string, number[]>()
  for (const { topic, key, eventId } of once(received)) {
    const place = `${topic} ${key}`
    keys.set(place, [...(keys.get(place) ?? []), eventId])
  }
  return keys
}
