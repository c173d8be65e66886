/** What a failure to publish says of the messages that were sent together. */
export interface Verdict {
  /**
   * What is wrong: one of the messages, one of their topics, our `access` to one of the topics, or `none` of them, since
   * the cluster is not reachable, not ready, or does not let us in. The last two are never a reason to set messages
   * aside, however long they last: somebody mends the cluster or its rules, and all that has waited is published.
   */
  readonly about: 'message' | 'topic' | 'access' | 'none'
  /** False when it may pass by itself, as a topic that does not exist yet. */
  readonly final: boolean
}

const NONE: Verdict = { about: 'none', final: false }

/**
 * Answers of brokers that are about a message or a topic. Any other is about the cluster, its settings or our producer:
 * it would be the same for all messages, and so all wait.
 */
const VERDICTS: Readonly<Record<string, Verdict>> = {
  MESSAGE_TOO_LARGE: { about: 'message', final: true },
  RECORD_LIST_TOO_LARGE: { about: 'message', final: true },
  INVALID_RECORD: { about: 'message', final: true },
  INVALID_TIMESTAMP: { about: 'message', final: true },
  POLICY_VIOLATION: { about: 'message', final: true },
  INVALID_TOPIC_EXCEPTION: { about: 'topic', final: true },
  TOPIC_AUTHORIZATION_FAILED: { about: 'access', final: false },
  UNKNOWN_TOPIC_OR_PARTITION: { about: 'topic', final: false },
  // what brokers say when they have stumbled over a message, but also over themselves
  UNKNOWN_SERVER_ERROR: { about: 'message', final: false },
  INVALID_REQUEST: { about: 'message', final: false },
}

/** An error of the client, whose own errors are below it or are its causes. */
interface ClientError extends Error {
  /** The broker's answer, by its name. */
  readonly apiId?: string
  readonly code?: string
  readonly errors?: readonly ClientError[]
}

/** What a failure of the client means, and why, in the broker's words where it has answered. */
export function verdictOf(error: unknown): Verdict & { readonly reason: string } {
  const failure: ClientError = error instanceof Error ? error : new Error(String(error))
  const judged = [...leaves(failure)].map((each) => ({ each, verdict: judge(each) }))
  const telling =
    judged.find(({ verdict }) => verdict.about === 'access') ??
    judged.find(({ verdict }) => verdict.final) ??
    judged.find(({ verdict }) => verdict.about !== 'none') ??
    judged[0]
  if (telling === undefined) return { ...NONE, reason: failure.message }
  const { message, apiId } = telling.each
  return { ...telling.verdict, reason: apiId === undefined ? message : `${apiId}: ${message}` }
}

function judge({ apiId, code, message }: ClientError): Verdict {
  if (apiId === undefined) {
    // What the client says when it was told that a topic does not exist.
    const isUnknown = code === 'PLT_KFK_USER' && message.startsWith('Unknown topic')
    return isUnknown ? { about: 'topic', final: false } : NONE
  }
  return VERDICTS[apiId] ?? NONE
}

/** The errors that have none below them. */
function* leaves(error: ClientError): Generator<ClientError> {
  const below = [...(error.errors ?? []), ...(error.cause instanceof Error ? [error.cause] : [])]
  if (below.length === 0) yield error
  for (const each of below) yield* leaves(each as ClientError)
}
