/**
 * What a failure to publish means for what was sent.
 * - `refused`: repeating will not help. One of the messages, or its topic, is the reason.
 * - `doubtful`: a broker has answered, and refuses for a reason that may pass, such as a topic that does not exist yet.
 * - `later`: the cluster is not reachable or not ready, or does not know us: nothing is wrong with the messages.
 */
export type Verdict = 'refused' | 'doubtful' | 'later'

/** Answers of brokers that are about a message or its topic, and final. */
const REFUSING = new Set([
  'MESSAGE_TOO_LARGE',
  'RECORD_LIST_TOO_LARGE',
  'INVALID_TOPIC_EXCEPTION',
  'TOPIC_AUTHORIZATION_FAILED',
  'INVALID_RECORD',
  'INVALID_TIMESTAMP',
  'POLICY_VIOLATION',
  'UNSUPPORTED_FOR_MESSAGE_FORMAT',
])

/** Answers that are about us or the producer, whatever the message. */
const OURS = new Set([
  'CLUSTER_AUTHORIZATION_FAILED',
  'SASL_AUTHENTICATION_FAILED',
  'UNSUPPORTED_SASL_MECHANISM',
  'ILLEGAL_SASL_STATE',
  'UNSUPPORTED_VERSION',
  'INVALID_PRODUCER_EPOCH',
  'PRODUCER_FENCED',
  'OUT_OF_ORDER_SEQUENCE_NUMBER',
  'UNKNOWN_PRODUCER_ID',
  'DUPLICATE_SEQUENCE_NUMBER',
  'BROKER_NOT_AVAILABLE',
  'INVALID_REQUIRED_ACKS',
])

/** An error of the client, whose own errors are below it or are its causes. */
interface ClientError extends Error {
  readonly apiId?: string
  readonly canRetry?: boolean
  readonly code?: string
  readonly errors?: readonly ClientError[]
}

/** What a failure of the client means. */
export function verdictOf(error: unknown): Verdict {
  const verdicts = [...leaves(error as ClientError)].map(verdictOfLeaf)
  if (verdicts.includes('refused')) return 'refused'
  return verdicts.includes('doubtful') ? 'doubtful' : 'later'
}

/** Why, in the broker's words where it has answered. */
export function reasonOf(error: unknown): string {
  const all = [...leaves(error as ClientError)]
  const telling = all.find((each) => verdictOfLeaf(each) !== 'later') ?? all[0]
  if (telling === undefined) return String(error)
  return telling.apiId === undefined ? telling.message : `${telling.apiId}: ${telling.message}`
}

function verdictOfLeaf({ apiId, canRetry, code, message }: ClientError): Verdict {
  if (apiId !== undefined) {
    if (REFUSING.has(apiId)) return 'refused'
    if (apiId === 'UNKNOWN_TOPIC_OR_PARTITION') return 'doubtful'
    return canRetry === true || OURS.has(apiId) ? 'later' : 'doubtful'
  }
  // What the client says when it was told that a topic does not exist.
  return code === 'PLT_KFK_USER' && message.startsWith('Unknown topic') ? 'doubtful' : 'later'
}

/** The errors that have none below them. */
function* leaves(error: ClientError): Generator<ClientError> {
  const below = [...(error.errors ?? []), ...(error.cause instanceof Error ? [error.cause] : [])]
  if (below.length === 0) yield error
  for (const each of below) yield* leaves(each as ClientError)
}
