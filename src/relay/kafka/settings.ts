import { readFileSync } from 'node:fs'
import type { ProducerOptions } from '@platformatic/kafka'
import { milliseconds, writtenDuration } from '../../definitions/duration.ts'
import { FencepostError } from '../../errors.ts'
import { suggestion } from '../../suggest.ts'

/** How a cluster is reached, and what is asked of it. */
export interface KafkaSettings {
  /** What the client is told of connections: TLS, SASL, compression, deadlines. */
  readonly client: Partial<ProducerOptions<Buffer, Buffer, Buffer, Buffer>>
  /** How long one request to publish may take, retries of the client's own included, in ms. */
  readonly sendTimeout: number
  /** How long a refusal that may pass, such as a topic that does not exist, is waited for, in ms. */
  readonly patience: number
  /** The most bytes that are sent in one request, if more than one message is in it. */
  readonly requestBytes: number
  /** A larger message is parked without being sent: brokers cut the connection of whoever sends it. */
  readonly messageBytes: number
}

const COMPRESSIONS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const
const MECHANISMS = ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'] as const

/** What `--config` knows, and what each means. */
export const kafkaConfig: Readonly<Record<string, string>> = {
  compression: `${COMPRESSIONS.join(', ')}. Default none.`,
  'create-topics':
    'true or false: whether brokers may make a topic that does not exist. Default true.',
  'message-bytes': 'A larger message is parked without being sent. Default 50000000.',
  patience: 'How long a topic that does not exist is waited for. Default 60s.',
  'request-bytes': 'The most that is sent in one request. Default 900000.',
  'sasl-mechanism': `${MECHANISMS.join(', ')}.`,
  'sasl-password': 'Default: the environment variable FENCEPOST_KAFKA_PASSWORD.',
  'sasl-username': 'Who logs in.',
  'send-timeout': 'How long one request may take, with its retries. Default 20s.',
  tls: 'true: encrypted, and the certificate verified. Default false.',
  'tls-ca': 'A file with the certificates that are trusted, in PEM.',
  'tls-cert': 'A file with the certificate that is shown, in PEM.',
  'tls-key': 'A file with its key.',
}

type Given = ReadonlyMap<string, string>

/**
 * Settings from `name=value` texts, as `--config` takes them.
 *
 * @throws FencepostError JE003 that names the first wrong one
 */
export function kafkaSettings(
  config: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): KafkaSettings {
  const given = new Map(config.map(named))
  const compression = chosen(given, 'compression', COMPRESSIONS) ?? 'none'
  const tls = tlsOf(given)
  const sasl = saslOf(given, env)
  return {
    client: {
      ...(compression === 'none' ? {} : { compression }),
      ...(tls === undefined ? {} : { tls, tlsServerName: true }),
      ...(sasl === undefined ? {} : { sasl }),
      autocreateTopics: chosen(given, 'create-topics', ['true', 'false']) !== 'false',
    },
    sendTimeout: duration(given, 'send-timeout', 1) ?? 20_000,
    patience: duration(given, 'patience', 0) ?? 60_000,
    requestBytes: bytes(given, 'request-bytes') ?? 900_000,
    messageBytes: bytes(given, 'message-bytes') ?? 50_000_000,
  }
}

function named(text: string): [string, string] {
  const at = text.indexOf('=')
  const name = at < 0 ? text : text.slice(0, at)
  if (!Object.hasOwn(kafkaConfig, name)) {
    throw refusal(`there is no setting ${name}`, suggestion(name, Object.keys(kafkaConfig)))
  }
  if (at < 0) throw refusal(`${name} has no value`, `Write ${name}=value.`)
  return [name, text.slice(at + 1)]
}

function tlsOf(given: Given) {
  const files = { ca: given.get('tls-ca'), cert: given.get('tls-cert'), key: given.get('tls-key') }
  const used = Object.entries(files).filter(([, file]) => file !== undefined)
  if (chosen(given, 'tls', ['true', 'false']) !== 'true') {
    if (used.length > 0) throw refusal('certificates are of no use without TLS', 'Add tls=true.')
    return undefined
  }
  return Object.fromEntries(used.map(([name, file]) => [name, read(`tls-${name}`, file as string)]))
}

function saslOf(given: Given, env: Readonly<Record<string, string | undefined>>) {
  const mechanism = chosen(given, 'sasl-mechanism', MECHANISMS)
  const username = given.get('sasl-username')
  const password = given.get('sasl-password') ?? env.FENCEPOST_KAFKA_PASSWORD
  if (mechanism === undefined) {
    if (username === undefined) return undefined
    throw refusal(
      'a user name is of no use without a mechanism',
      `Add sasl-mechanism=${MECHANISMS[1]}.`,
    )
  }
  if (username === undefined || password === undefined) {
    throw refusal(
      `${mechanism} needs a user name and a password`,
      'Add sasl-username=…, and set FENCEPOST_KAFKA_PASSWORD.',
    )
  }
  return { mechanism, username, password }
}

function chosen<Word extends string>(
  given: Given,
  name: string,
  words: readonly Word[],
): Word | undefined {
  const text = given.get(name)
  if (text === undefined) return undefined
  const word = words.find((each) => each === text)
  if (word === undefined) throw refusal(`${name} cannot be ${text}`, suggestion(text, words))
  return word
}

function bytes(given: Given, name: string): number | undefined {
  const text = given.get(name)
  if (text === undefined) return undefined
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text)
  throw refusal(`${name} must be a number of bytes`, `received ${text}`)
}

function duration(given: Given, name: string, least: number): number | undefined {
  const text = given.get(name)
  if (text === undefined) return undefined
  const problem = writtenDuration(least)(text)
  if (problem === undefined) return milliseconds(text)
  throw refusal(`${name} ${problem}`, `received ${text}`)
}

function read(name: string, file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw refusal(`${name} cannot be read`, (error as Error).message)
  }
}

function refusal(problem: string, hint: string): FencepostError {
  return new FencepostError('JE003', `the configuration of Kafka: ${problem}`, {
    detail: 'received through --config',
    hint,
  })
}
