import { createHmac } from 'node:crypto'

const PREFIX = 'whsec_'

/** What is signed. */
export interface Message {
  /** The same at each attempt to deliver it. */
  readonly id: string
  /** Exactly as it is sent. */
  readonly body: string
}

/**
 * The headers of Standard Webhooks: the id, when this attempt is made, and one signature for each secret, so that
 * a receiver who knows any of them accepts the message.
 *
 * @param secrets `whsec_` and base64
 * @param now of this process: receivers compare it with their own clocks
 */
export function signedHeaders(
  { id, body }: Message,
  secrets: readonly string[],
  now: Date,
): Readonly<Record<string, string>> {
  const timestamp = Math.floor(now.getTime() / 1000)
  const content = `${id}.${timestamp}.${body}`
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': secrets.map((secret) => `v1,${signature(secret, content)}`).join(' '),
  }
}

function signature(secret: string, content: string): string {
  const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
  return createHmac('sha256', key).update(content).digest('base64')
}
