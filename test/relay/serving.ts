import { randomBytes } from 'node:crypto'
import { afterEach, expect } from 'vitest'
import { connect, json } from '../../src/database/database.ts'
import { WebhookRelay, type WebhookRelayOptions } from '../../src/relay/webhook.ts'
import { createLogger } from '../../src/telemetry/logger.ts'
import type { AttemptReport } from '../../src/worker/report.ts'
import { restoreClock } from '../support/clock.ts'
import { enqueue, freshType, violations } from '../support/engine.ts'
import { publishing } from '../support/outbox.ts'
import { ownDatabase } from '../support/server.ts'
import { column, one } from '../support/sql.ts'

interface Made {
  readonly name: string
  readonly secret: string
  /** Makes one event for it. */
  tell(): Promise<void>
  configure(change: string): Promise<void>
}

/** Webhooks of a database of the file's own that relays serve. */
export function serving() {
  const database = ownDatabase()
  const db = () => database.db
  /** What relays logged, and what they told of attempts. */
  let logged = ''
  let attempts: AttemptReport[] = []
  afterEach(async () => {
    await restoreClock(db())
    expect(await violations(db())).toEqual([])
  })

  return {
    database,
    db,
    logged: () => logged,

    /** A relay that allows loopback, until it is disposed of. */
    relaying({
      url = database.url,
      allowPrivate = true,
      ...others
    }: Partial<WebhookRelayOptions> = {}) {
      logged = ''
      attempts = []
      const relayDb = connect({ url, max: 4, applicationName: 'webhook relay' })
      const relay = new WebhookRelay({
        db: relayDb,
        url,
        log: createLogger({ destination: { write: (text) => (logged += text) } }),
        allowPrivate,
        poll: 100,
        stopDeadline: 1000,
        onAttempt: (report) => attempts.push(report),
        ...others,
      })
      const running = relay.run()
      running.catch(() => {}) // who expects its end asks for it
      return {
        running,
        async [Symbol.asyncDispose]() {
          await relay.stop()
          await relayDb.close()
        },
      }
    },

    /** A webhook for the events of a type of its own. */
    async webhook(url: string): Promise<Made> {
      const name = `hook.${randomBytes(5).toString('hex')}`
      const type = await publishing(db(), freshType())
      const secret = await one<string>(db(), 'select fencepost.create_webhook($1, $2, $3)', [
        name,
        url,
        json({ types: [type] }),
      ])
      return {
        name,
        secret,
        tell: async () => void (await enqueue(db(), type)),
        configure: (change) =>
          one(db(), `select fencepost.configure_webhook($1, ${change})`, [name]),
      }
    },

    /** What the view says of a webhook. */
    seen: (name: string, what: string) =>
      one(db(), `select ${what} from fencepost.webhooks where name = $1`, [name]),

    /** How long its deliveries wait for their next attempts, in seconds. */
    waitsOf: (name: string) =>
      column<number>(
        db(),
        `select extract(epoch from d.available_at - fencepost_private.now())::float8 from fencepost_private.delayed d
         join fencepost_private.lane l using (lane_id) join fencepost_private.job_type t using (type_id) where t.type like '%' || $1`,
        [name],
      ),

    /** What was told of its attempts. */
    ended: (name: string) => attempts.filter(({ type }) => type.endsWith(name)),
  }
}
