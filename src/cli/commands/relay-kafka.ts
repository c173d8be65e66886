import { connect, type Queryable } from '../../database/database.ts'
import * as engine from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'
import { SHORTEST_POLL } from '../../outbox/pauses.ts'
import { type Broker, brokerOf, brokerText } from '../../relay/kafka/broker.ts'
import { whyUnreachable } from '../../relay/kafka/reach.ts'
import type { KafkaClient } from '../../relay/kafka/sender.ts'
import { kafkaConfig, kafkaSettings } from '../../relay/kafka/settings.ts'
import { TopicTemplate } from '../../relay/kafka/topic.ts'
import { KafkaSink } from '../../relay/kafka.ts'
import { Relay } from '../../relay/relay.ts'
import { createLogger, type Logger } from '../../telemetry/logger.ts'
import { UsageError } from '../arguments.ts'
import type { Command, Invocation } from '../command.ts'
import { databaseUrl } from '../database.ts'
import { PLACES } from '../event-options.ts'

/** How long a broker may take to accept a connection before it is told of, in ms. */
const REACHED_WITHIN = 5_000

const widest = Math.max(...Object.keys(kafkaConfig).map((name) => name.length))
const settings = Object.entries(kafkaConfig)
  .map(([name, help]) => `  ${name.padEnd(widest)}  ${help}`)
  .join('\n')

export const relayKafka: Command = {
  help: `Each event is a message: its key is run:<id>, or job:<id> for jobs of no run, so that Kafka keeps the order of each
run and job. A position is acknowledged once all in-sync replicas hold everything before it: after any crash the
same events may come twice, with the same header fencepost-event-id, and none is missing. A message that brokers refuse
for good is parked with the reason; see fencepost.parked_events, and fencepost.replay_parked() to send it again.
A second relay of the same consumer waits until the first is gone. Logs to standard output.

  fencepost relay kafka --consumer analytics --brokers localhost:9092 --topic 'fencepost.{kind}'

A topic may name {kind}, {type}, {tenant}, {workflow} and {outcome}. --config takes, as name=value:

${settings}`,
  options: {
    consumer: { value: '<name>', help: 'The consumer; it is made when there is none.' },
    brokers: { value: '<host:port,…>', help: 'Brokers to begin with.' },
    topic: { value: '<template>', help: "The topic of each event. Default 'fencepost.{kind}'." },
    start: { value: '<place>', help: `Where a new consumer begins: ${PLACES}. Default now.` },
    'client-id': { value: '<name>', help: 'What brokers call it. Default fencepost-<consumer>.' },
    config: { value: '<name=value>', help: 'A setting of the connection; may be given again.' },
    max: { value: '<n>', help: 'How many events are published at a time. Default 500.' },
    lease: {
      value: '<duration>',
      help: 'When another relay takes over from a dead one. Default 30s.',
    },
    poll: { value: '<duration>', help: 'How often to look when there is nothing. Default 1s.' },
    'stop-deadline': {
      value: '<duration>',
      help: 'How long the last batch may take. Default 10s.',
    },
  },
  async run(invocation) {
    const { terminal } = invocation
    const consumer = wordOf('consumer', needed(invocation, 'consumer'))
    const kafka = {
      brokers: brokersOf(invocation),
      clientId: wordOf('client-id', invocation.text('client-id') ?? `fencepost-${consumer}`),
      topics: new TopicTemplate(invocation.text('topic') ?? 'fencepost.{kind}'),
      settings: kafkaSettings(invocation.texts('config'), terminal.env),
    }
    const pace = {
      max: batchOf(invocation.number('max') ?? 500),
      lease: invocation.milliseconds('lease', 1_000, 86_400_000) ?? 30_000,
      poll: invocation.milliseconds('poll', SHORTEST_POLL) ?? 1_000,
      stopDeadline: invocation.milliseconds('stop-deadline') ?? 10_000,
    }
    const sink = new KafkaSink(await loadClient(), kafka)
    const log = createLogger({ destination: terminal }).child({ consumer })
    await using db = connect({
      url: databaseUrl(invocation),
      max: 2,
      applicationName: 'fencepost relay kafka',
      onRebuild: (error) => log.warn({ error }, 'a connection to the database failed'),
    })
    const isNew = await ensureConsumer(db, consumer, invocation.text('start'))
    const relay = new Relay({ db, sink, consumer, log, ...pace })
    log.info({ brokers: kafka.brokers.map(brokerText), new: isNew }, 'the relay to Kafka begins')
    const running = relay.run()
    const ended = new AbortController()
    void warnUnlessReachable(kafka.brokers, log, ended.signal)
    try {
      const signal = await Promise.race([terminal.untilAsked(), running])
      log.info({ signal }, 'the relay stops')
      await relay.stop()
      await running
    } finally {
      ended.abort()
    }
    return undefined
  },
}

function needed(invocation: Invocation, option: string): string {
  const text = invocation.text(option)
  if (text) return text
  throw new UsageError(`--${option} is missing`, 'See fencepost relay kafka --help.')
}

function brokersOf(invocation: Invocation): Broker[] {
  needed(invocation, 'brokers')
  return (invocation.words('brokers') ?? []).map((each) => {
    const broker = brokerOf(each)
    if (broker !== undefined) return broker
    throw new UsageError(`${JSON.stringify(each)} is no broker`, 'As kafka-1:9092,kafka-2:9092.')
  })
}

/** Neither consumers nor Kafka's clients have spaces in their names. */
function wordOf(option: string, text: string): string {
  if (/^\S+$/.test(text)) return text
  throw new UsageError(`--${option} must be a word`, `received ${JSON.stringify(text)}`)
}

function batchOf(max: number): number {
  if (max >= 1 && max <= 10_000) return max
  throw new UsageError('--max must be from 1 to 10000', `received ${max}`)
}

/** True when it was made. One that exists stays as it is, whatever its filter. */
async function ensureConsumer(
  db: Queryable,
  name: string,
  start: string | undefined,
): Promise<boolean> {
  try {
    return await engine.createConsumer(db, { name, start })
  } catch (error) {
    if (error instanceof FencepostError && error.code === 'JE004') return false
    throw error
  }
}

/** Where there are no events yet, nothing else would tell that the brokers are not there. */
async function warnUnlessReachable(
  brokers: readonly Broker[],
  log: Logger,
  ended: AbortSignal,
): Promise<void> {
  const late = AbortSignal.timeout(REACHED_WITHIN)
  const reason = await whyUnreachable(brokers, AbortSignal.any([late, ended]))
  if (reason === undefined || ended.aborted) return
  log.warn({ reason }, 'no broker can be reached now; it goes on trying when there are events')
}

/** The client is an optional peer: who does not use Kafka does not install it. */
async function loadClient(): Promise<KafkaClient> {
  try {
    return await import('@platformatic/kafka')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code !== 'ERR_MODULE_NOT_FOUND' || !message.includes("'@platformatic/kafka'")) throw error
    const range = Number(process.versions.node.split('.')[0]) < 22 ? '1' : '2'
    throw new UsageError(
      'fencepost relay kafka needs the package @platformatic/kafka, which is not installed',
      `Install it beside fencepost: npm install @platformatic/kafka@${range}`,
    )
  }
}
