import { z } from '@hono/zod-openapi'
import { FencepostError } from '../errors.ts'

/** The header that means the same as the field idempotency_key. */
export const IDEMPOTENCY_KEY = 'idempotency-key'

/** The headers of a route that takes it. */
export const keyHeader = z.object({ [IDEMPOTENCY_KEY]: z.string().optional() })

/**
 * What was sent, with the key of the header if there is one.
 *
 * @throws FencepostError JE003 when both are given and differ
 */
export function withKey<Sent extends { readonly idempotency_key?: string | undefined }>(
  sent: Sent,
  key: string | undefined,
): Sent {
  if (key === undefined) return sent
  const own = sent.idempotency_key
  if (own !== undefined && own !== key) {
    throw new FencepostError('JE003', 'the header Idempotency-Key and idempotency_key differ', {
      detail: `received ${JSON.stringify(key)} and ${JSON.stringify(own)}`,
      hint: 'Give one of them.',
    })
  }
  return { ...sent, idempotency_key: key }
}
