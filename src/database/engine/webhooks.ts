import { FencepostError } from '../../errors.ts'
import type { Queryable, QueryOptions } from '../database.ts'
import { json } from '../json.ts'
import { call, perform, rows, value } from './call.ts'
import type { EventFilter } from './outbox.ts'

/** A row of `fencepost.webhooks`. */
export interface WebhookRow {
  readonly name: string
  readonly url: string
  readonly kinds: readonly string[] | null
  readonly types: readonly string[] | null
  readonly tenant: string | null
  readonly paused: boolean
  readonly paused_reason: string | null
  readonly max_attempts: number
  /** How long one attempt may take: an SQL interval. */
  readonly timeout: string | null
  readonly max_running: number | null
  readonly backoff_base: string
  readonly backoff_cap: string
  /** Deliveries that wait for their first or next attempt. */
  readonly waiting: number
  readonly dead_letters: number
  /** Events that are no deliveries yet, of all kinds; counted to 100,000. */
  readonly lag_events: number
  /** Until when messages are signed with an old secret, too. */
  readonly old_secret_until: Date | null
  /** Why its events could not be made deliveries at the last try. */
  readonly error: string | null
  readonly error_at: Date | null
  readonly consumer: string
  readonly type: string
  readonly created_at: Date
  readonly updated_at: Date
}

/** All webhooks, by name, or the one of a name. */
export function webhooks(
  db: Queryable,
  { name }: { readonly name?: string | undefined } = {},
  options?: QueryOptions,
): Promise<WebhookRow[]> {
  const text = 'select * from fencepost.webhooks where $1::text is null or name = $1 order by name'
  return db.query(text, [name ?? null], options)
}

/** The types of the jobs that deliver, also of webhooks that were removed, and how many may run at once. */
export function webhookTypes(
  db: Queryable,
  options?: QueryOptions,
): Promise<{ readonly type: string; readonly max_running: number | null }[]> {
  const text = `select type, max_running from fencepost.types where starts_with(type, 'fencepost.webhook.') order by type`
  return db.query(text, [], options)
}

/** How long a job of this type waits at most after this attempt has failed, in ms. */
export async function backoffAfter(
  db: Queryable,
  type: string,
  attempt: number,
  options?: QueryOptions,
): Promise<number> {
  const text = `select 1000 * least(extract(epoch from backoff_cap)::float8,
                      extract(epoch from backoff_base)::float8 * least(power(backoff_factor, least($2::int - 1, 100)), 1e15)) as ms
                from fencepost.types where type = $1`
  const [row] = await db.query<{ readonly ms: number }>(text, [type, attempt], options)
  return row?.ms ?? 0
}

/** A webhook to be made. */
export interface NewWebhook {
  readonly name: string
  readonly url: string
  readonly filter?: EventFilter | undefined
  /** `whsec_` and base64. Default: one is made. */
  readonly secret?: string | undefined
  /** `now` (the default), `beginning`, a time, or a position. */
  readonly start?: string | undefined
  /** How old its oldest unread event may be: an SQL interval. Default 7 days; null for no limit. */
  readonly max_lag?: string | null | undefined
}

/**
 * Makes an endpoint that gets events by HTTP; its secret, which is shown this once.
 *
 * @throws FencepostError JE003; JE004 when there is one of this name
 */
export function createWebhook(
  db: Queryable,
  { filter, ...webhook }: NewWebhook,
  options?: QueryOptions,
): Promise<string> {
  const given = filter === undefined ? undefined : json(filter)
  return value(db, call('create_webhook', { ...webhook, filter: given }), options)
}

/** What is changed of a webhook. What is left out stays as it is. */
export interface WebhookChange {
  readonly url?: string | undefined
  readonly filter?: EventFilter | undefined
  readonly paused?: boolean | undefined
  /** Why it is paused. */
  readonly reason?: string | undefined
  readonly max_attempts?: number | undefined
  /** An SQL interval. */
  readonly timeout?: string | undefined
  readonly max_running?: number | undefined
  readonly backoff_base?: string | undefined
  readonly backoff_cap?: string | undefined
}

/**
 * Changes a webhook, pauses it, or lets it go on.
 *
 * @throws FencepostError JE002; JE003, naming the setting
 */
export function configureWebhook(
  db: Queryable,
  name: string,
  { filter, ...change }: WebhookChange,
  options?: QueryOptions,
): Promise<void> {
  const given = filter === undefined ? undefined : json(filter)
  return perform(db, call('configure_webhook', { ...change, filter: given, name }), options)
}

/**
 * Gives a webhook a new secret, which is shown this once. Old ones sign, too, for as long as `keep_old`.
 *
 * @throws FencepostError JE002, JE003, JE004
 */
export function rotateWebhookSecret(
  db: Queryable,
  name: string,
  {
    keep_old,
    secret,
  }: { readonly keep_old?: string | undefined; readonly secret?: string | undefined } = {},
  options?: QueryOptions,
): Promise<string> {
  return value(db, call('rotate_webhook_secret', { name, keep_old, secret }), options)
}

/**
 * Removes a webhook and cancels its deliveries; false when there was none.
 *
 * @throws FencepostError JE001 when a session reads its consumer
 */
export function dropWebhook(db: Queryable, name: string, options?: QueryOptions): Promise<boolean> {
  return value(db, call('drop_webhook', { name }), options)
}

/**
 * Makes deliveries of the next events of each webhook, exactly once; how many events were taken.
 *
 * @throws FencepostError JE003
 */
export function relayWebhooks(
  db: Queryable,
  max?: number,
  options?: QueryOptions,
): Promise<number> {
  return value(db, call('relay_webhooks', { max }), options)
}

/** What an attempt needs to deliver. */
export interface WebhookDelivery {
  readonly url: string
  /** The same at each attempt. */
  readonly message_id: string
  /** JSON, as it is to be sent. */
  readonly body: string
  /** What it is signed with, newest first. */
  readonly secrets: readonly string[]
}

/**
 * Where a delivery goes, its body and its secrets, for who holds its lease.
 *
 * @throws FencepostError JE001 when the lease was lost, JE002 when the webhook was removed
 */
export async function webhookDelivery(
  db: Queryable,
  jobId: number,
  token: number,
  options?: QueryOptions,
): Promise<WebhookDelivery> {
  const made = call('webhook_delivery', { job_id: jobId, token })
  const [delivery] = await rows<WebhookDelivery>(db, made, options)
  return delivery as WebhookDelivery
}

/**
 * True when the role may have deliveries: it asks for that of a job which does not exist.
 *
 * @throws DatabaseError when it may not (42501)
 */
export async function mayDeliver(db: Queryable, options?: QueryOptions): Promise<true> {
  try {
    await webhookDelivery(db, 0, 0, options)
  } catch (error) {
    if (!(error instanceof FencepostError && error.code === 'JE002')) throw error
  }
  return true
}
