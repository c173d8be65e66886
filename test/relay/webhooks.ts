import { randomBytes } from 'node:crypto'
import { afterEach, expect } from 'vitest'
import { json } from '../../src/database/database.ts'
import { moveClock, restoreClock } from '../support/clock.ts'
import { type Claimed, claim, violations } from '../support/engine.ts'
import { ownDatabase } from '../support/server.ts'
import { one } from '../support/sql.ts'

export const URL = 'https://example.com/hooks'
export const freshName = () => `hook.${randomBytes(5).toString('hex')}`
export const typeOf = (name: string) => `fencepost.webhook.${name}`

export const kindOf = (delivery: Claimed) =>
  (delivery.payload as { message: { type: string } }).message.type

/** Webhooks of a database of the file's own, by their SQL; each test leaves none. */
export function webhooks() {
  const database = ownDatabase()
  const db = () => database.db
  afterEach(async () => {
    await restoreClock(db())
    await db().query('select fencepost.drop_webhook(name) from fencepost.webhooks')
    expect(await violations(db())).toEqual([])
  })

  return {
    database,
    db,

    /** A webhook of its own; its name. */
    async webhook(filter: object = {}, name = freshName()): Promise<string> {
      await one(db(), 'select fencepost.create_webhook($1, $2, $3)', [name, URL, json(filter)])
      return name
    },

    /** Lets a second pass, after which readers look anew, and relays once. */
    async relay(max = 1000): Promise<number> {
      await moveClock(db(), '1 second')
      return one<number>(db(), 'select fencepost.relay_webhooks($1)', [max])
    },

    /** The deliveries of a webhook that wait. */
    waiting: (name: string, max = 1000) => claim(db(), typeOf(name), max),

    /** What the view says of a webhook. */
    seen: (name: string, what: string) =>
      one(db(), `select ${what} from fencepost.webhooks where name = $1`, [name]),
  }
}
