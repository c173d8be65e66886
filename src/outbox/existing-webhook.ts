import type { Queryable } from '../database/database.ts'
import { dropWebhook, type WebhookRow, webhooks } from '../database/engine.ts'
import { FencepostError } from '../errors.ts'

/**
 * A webhook that exists.
 *
 * @throws FencepostError JE002
 */
export async function existingWebhook(db: Queryable, name: string): Promise<WebhookRow> {
  const [webhook] = await webhooks(db, { name })
  if (webhook === undefined) throw missing(name)
  return webhook
}

/**
 * Removes a webhook that exists.
 *
 * @throws FencepostError JE001 when a session reads its consumer; JE002
 */
export async function dropExistingWebhook(db: Queryable, name: string): Promise<void> {
  if (!(await dropWebhook(db, name))) throw missing(name)
}

function missing(name: string): FencepostError {
  return new FencepostError('JE002', `webhook ${name.slice(0, 200)} does not exist`, {
    detail: `received name = ${name.slice(0, 200)}`,
    hint: 'See GET /webhooks, or fencepost webhook list.',
  })
}
