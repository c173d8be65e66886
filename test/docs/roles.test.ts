import { existsSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { serveApi } from '../../src/api/server.ts'
import { runStatements } from '../../src/database/console.ts'
import { connect, type Database } from '../../src/database/database.ts'
import { defineJob, defineWorkflow, Fencepost } from '../../src/index.ts'
import { WebhookRelay } from '../../src/relay/webhook.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { Housekeeping } from '../../src/worker/housekeeping.ts'
import { Endpoint } from '../relay/endpoint.ts'
import { enqueue, freshType, status } from '../support/engine.ts'
import { createConsumer } from '../support/outbox.ts'
import { freshRole, type Role } from '../support/role.ts'
import { ownDatabase } from '../support/server.ts'
import { column, one, refused } from '../support/sql.ts'
import { run } from '../support/template.ts'
import { deferred } from '../worker/stage.ts'
import { linksOf, root, snippetsOf } from './snippets.ts'

// The page about roles, run as it stands; then each role does its work, and is refused what is not.

const PAGE = 'docs/operations/roles.md'
const ROLES = ['application', 'worker', 'relay', 'webhook_relay', 'monitoring', 'operator'] as const

const database = ownDatabase()
const db = () => database.db
beforeAll(async () => {
  for (const { code } of snippetsOf(PAGE)) await runStatements(database.url, code)
})
afterAll(async () => {
  for (const role of [...ROLES].reverse()) {
    await run(database.url, `drop owned by fencepost_${role} cascade`)
    await run(database.url, `drop role fencepost_${role}`)
  }
})

/** A session's role that has the rights of one of the page. */
async function member(role: (typeof ROLES)[number]): Promise<Role & { db: Database }> {
  const fresh = await freshRole(database.url)
  await run(database.url, `grant fencepost_${role} to ${fresh.name}`)
  const own = connect({ url: fresh.url })
  return {
    ...fresh,
    db: own,
    async [Symbol.asyncDispose]() {
      await own.close()
      await fresh[Symbol.asyncDispose]()
    },
  }
}
/** Expects that it may not call these. */
async function mayNot(own: Database, ...calls: string[]): Promise<void> {
  for (const call of calls) await refused(own.query(`select fencepost.${call}`), '42501')
}

describe('the roles of the page', () => {
  it('an application enqueues, and nothing else', async () => {
    await using role = await member('application')
    const engine = new Fencepost({ url: role.url })
    const id = await engine.enqueue(freshType(), { hello: 'world' })
    expect(await status(db(), id)).toBe('pending')
    const workflow = defineWorkflow('greeting').task('hello', { type: freshType() })
    await new Fencepost({ database: db() }).publish(workflow)
    expect(await engine.start(workflow, {})).toMatchObject({ id: expect.any(Number) })
    await engine.close()
    await mayNot(role.db, `claim('me', array['x'])`, 'stats()', 'doctor()', `pause_type('x')`)
    await refused(role.db.query('select * from fencepost.jobs'), '42501')
    await refused(role.db.query('select * from fencepost_private.job'), '42501')
  })

  it('a worker works: handlers with steps, failures and housekeeping', async () => {
    await using role = await member('worker')
    const type = freshType()
    const job = defineJob({
      type,
      run: async (payload: { fail?: boolean }, ctx) => {
        await ctx.step('one', async () => 1)
        if (payload.fail) throw new Error('no luck')
        return 'done'
      },
    })
    const [good, bad] = [
      await enqueue(db(), type),
      await enqueue(db(), type, { payload: { fail: true }, max_attempts: 1 }),
    ]
    const engine = new Fencepost({ url: role.url })
    const worker = engine.worker([job], { logger: silentLogger })
    await worker.start()
    await expect.poll(() => status(db(), good)).toBe('completed')
    await expect.poll(() => status(db(), bad)).toBe('dead_letter')
    await worker.stop()
    await engine.close()
    await role.db.query('select * from fencepost.maintain()')
    await mayNot(
      role.db,
      `enqueue('x')`,
      `cancel(1)`,
      `webhook_delivery(1, 1)`,
      `configure_type('x')`,
    )
  })

  it('a relay makes, reads and acknowledges consumers', async () => {
    await using role = await member('relay')
    await createConsumer(role.db, 'kafka', {}, 'beginning')
    const events = await role.db.query<{ position: string }>(
      `select position from fencepost.read_events('kafka')`,
    )
    expect(events.length).toBeGreaterThan(0)
    await role.db.query(`select fencepost.ack_events('kafka', $1)`, [events.at(-1)?.position])
    expect(await one(role.db, 'select count(*) from fencepost.consumers')).toBe(1)
    await mayNot(role.db, 'relay_webhooks()', `drop_consumer('kafka')`, `enqueue('x')`)
  })

  it('a relay of webhooks delivers', async () => {
    await using role = await member('webhook_relay')
    await using endpoint = await Endpoint.open()
    await db().query(`select fencepost.create_webhook('billing', $1)`, [endpoint.url])
    const relay = new WebhookRelay({
      db: role.db,
      url: role.url,
      log: silentLogger,
      allowPrivate: true,
      poll: 100,
      stopDeadline: 1000,
    })
    const running = relay.run()
    await db().query('select fencepost.cancel(fencepost.enqueue($1))', [freshType()])
    await expect.poll(() => endpoint.hits.length).toBeGreaterThan(0)
    await relay.stop()
    await running
    await mayNot(role.db, `create_webhook('x', 'https://example.com')`, `drop_webhook('billing')`)
  })

  it('monitoring reads all views and serves metrics, and changes nothing', async () => {
    await using role = await member('monitoring')
    await using server = await serveApi({ db: role.db, port: 0 })
    for (const route of ['/metrics', '/consumers', '/webhooks', '/types', '/workers', '/jobs/1']) {
      const { status: answer } = await fetch(server.url + route)
      expect(answer, route).toBe(200)
    }
    const topics = await column(role.db, 'select topic from fencepost.doctor()')
    expect(topics).not.toContain('blind')
    const trouble = deferred<string>()
    await using housekeeping = new Housekeeping(role.db, 10, trouble.resolve)
    housekeeping.start()
    expect(await trouble.promise).toContain('permission denied for function maintain')
    await mayNot(role.db, `rotate_webhook_secret('billing')`, 'maintain()', 'after_restore()')
  })

  it('an operator may call everything, also what is granted by name only', async () => {
    await using role = await member('operator')
    expect(await role.db.query('select * from fencepost.after_restore()')).toEqual([])
    await role.db.query(`select fencepost.rotate_webhook_secret('billing')`)
    await refused(role.db.query('select * from fencepost_private.webhook_secret'), '42501')
  })
})

it('links to files that exist', () => {
  expect(
    linksOf(PAGE).filter((file) => !existsSync(path.join(root, path.dirname(PAGE), file))),
  ).toEqual([])
})
