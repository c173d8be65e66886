import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { TestContext } from 'vitest'
import { isRequired } from '../required.ts'
import { mockCluster } from './build.mjs'

/** How long the first test may take, in ms: the program is built then. */
export const BUILD_TIMEOUT = 300_000

/** Kinds of requests, and answers, by Kafka's numbers. */
export const apis = { produce: 0, metadata: 3, initProducerId: 22 } as const
export const answers = {
  good: 0,
  unknownTopic: 3,
  notLeader: 6,
  timedOut: 7,
  messageTooLarge: 10,
  invalidTopic: 17,
  notEnoughReplicas: 19,
  topicAuthorizationFailed: 29,
  clusterAuthorizationFailed: 31,
  unknownServerError: -1,
} as const

/** A message as a consumer of librdkafka got it. */
export interface Received {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly key: string
  readonly value: string
  readonly headers: Readonly<Record<string, string>>
  /** From the header. */
  readonly eventId: number
}

/**
 * The program of the mock cluster. Where it cannot be built the test is skipped, with the reason, unless
 * `FENCEPOST_REQUIRE` lists `kafka`: then it fails.
 */
export function requiredCluster(context: Pick<TestContext, 'skip'>): string {
  const program = mockCluster()
  if (program !== undefined) return program
  const needs =
    "librdkafka's mock cluster (npm ci --ignore-scripts in test/support/kafka, cc and make)"
  if (isRequired('kafka')) throw new Error(`${needs} is required (FENCEPOST_REQUIRE) and missing`)
  return context.skip(`${needs} is not there`)
}

/** A cluster of mock brokers of librdkafka, numbered from 1, in a process of its own: see cluster.c. */
export class MockCluster implements AsyncDisposable {
  readonly brokers: string
  readonly #child: ChildProcessWithoutNullStreams
  readonly #lines: AsyncIterator<string>

  private constructor(
    child: ChildProcessWithoutNullStreams,
    lines: AsyncIterator<string>,
    brokers: string,
  ) {
    this.#child = child
    this.#lines = lines
    this.brokers = brokers
  }

  static async start(program: string, brokers = 3): Promise<MockCluster> {
    const child = spawn(program, [String(brokers)])
    child.stderr.pipe(process.stderr)
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    const first = await lines.next()
    const [, addresses] = /^ready (\S+)$/.exec(String(first.value)) ?? []
    if (addresses === undefined) throw new Error(`the mock cluster said ${first.value}`)
    return new MockCluster(child, lines, addresses)
  }

  topic(name: string, partitions: number): Promise<void> {
    return this.#tell(`topic ${name} ${partitions}`)
  }

  /** Answers so whenever the topic is asked for, until it is told to answer 0. */
  refuseTopic(name: string, answer: number): Promise<void> {
    return this.#tell(`refuse-topic ${name} ${answer}`)
  }

  /** Answers the next requests of a kind so, one after another. */
  answer(api: number, ...answers: readonly number[]): Promise<void> {
    return this.#tell(`errors ${api} ${answers.join(' ')}`)
  }

  /** Closes the connection instead of answering the next requests of a kind. */
  cut(api: number, count: number): Promise<void> {
    return this.#tell(`cut ${api} ${count}`)
  }

  /** All brokers answer so many ms later. */
  async slow(ms: number): Promise<void> {
    for (const id of this.#ids()) await this.#tell(`rtt ${id} ${ms}`)
  }

  /** All brokers close their connections and take none. */
  async down(): Promise<void> {
    for (const id of this.#ids()) await this.#tell(`down ${id}`)
  }

  async up(): Promise<void> {
    for (const id of this.#ids()) await this.#tell(`up ${id}`)
  }

  moveLeader(topic: string, partition: number, broker: number): Promise<void> {
    return this.#tell(`leader ${topic} ${partition} ${broker}`)
  }

  /** All messages of all topics; those of a partition in order. */
  async read(): Promise<Received[]> {
    this.#child.stdin.write('read\n')
    const received: Received[] = []
    for (;;) {
      const line = await this.#next()
      if (!line.startsWith('message\t')) return check(line, received)
      received.push(receivedOf(line))
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null) return
    const gone = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await gone
  }

  #ids(): number[] {
    return this.brokers.split(',').map((_, index) => index + 1)
  }

  async #tell(command: string): Promise<void> {
    this.#child.stdin.write(`${command}\n`)
    check(await this.#next(), undefined)
  }

  async #next(): Promise<string> {
    const { value, done } = await this.#lines.next()
    if (done) throw new Error('the mock cluster has ended')
    return value
  }
}

function check<Value>(answer: string, value: Value): Value {
  if (answer === 'ok') return value
  throw new Error(`the mock cluster said ${answer}`)
}

function receivedOf(line: string): Received {
  const [, topic = '', partition, offset, key = '', value = '', ...rest] = line.split('\t')
  const headers: Record<string, string> = {}
  for (let at = 0; at < rest.length; at += 2) headers[rest[at] as string] = rest[at + 1] as string
  return {
    topic,
    partition: Number(partition),
    offset: Number(offset),
    key,
    value,
    headers,
    eventId: Number(headers['fencepost-event-id']),
  }
}
