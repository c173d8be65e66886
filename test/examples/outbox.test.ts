import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Consumer } from '../../examples/outbox/consumer.ts'
import { type LogEvent, silentLogger, type Worker } from '../../src/index.ts'
import { linksOf, root } from '../docs/snippets.ts'
import { type Example, startExample } from './example.ts'

type Orders = typeof import('../../examples/orders/workflow.ts')

/** Orders are fulfilled; the consumers read what becomes of them. */
let example: Example<Orders>
let sender: Worker
const consumers = {} as Record<'analytics' | 'billing' | 'notifications', Consumer>
beforeAll(async () => {
  example = await startExample(() => import('../../examples/orders/workflow.ts'))
  const { prepare } = await import('../../examples/outbox/tables.ts')
  const { analytics } = await import('../../examples/outbox/analytics.ts')
  const { billing } = await import('../../examples/outbox/billing.ts')
  const { notifications, send } = await import('../../examples/outbox/notifications.ts')
  Object.assign(consumers, { analytics, billing, notifications })
  await prepare()
  for (const { name, filter } of Object.values(consumers)) {
    await example.engine.createConsumer(name, { filter, start: 'beginning' })
  }
  sender = example.engine.worker([send], { logger: silentLogger })
  await sender.start()
})
afterAll(async () => {
  await sender.stop()
  await example.stop()
})

/** Starts a consumer; what it gives stops it. */
function run(consumer: Consumer): () => Promise<void> {
  const end = new AbortController()
  const running = consumer.run(example.engine, {
    signal: end.signal,
    logger: silentLogger,
    poll: 50,
    max: 7, // small, so that batches end in the middle of what one order does
  })
  return () => {
    end.abort()
    return running
  }
}

let orders = 0
/** Orders that are fulfilled, or undone when no carrier goes there. */
async function order(country: 'DE' | 'AQ', count: number): Promise<void> {
  const lines = [{ sku: 'lamp', quantity: 1, cents: 900, grams: 800 }]
  for (let each = 0; each < count; each++) {
    const id = ++orders
    const input = { id, card: '4242', country, lines }
    const one = await example.engine.start(example.workflow, input, { tenant: `tenant-${id % 2}` })
    await one.result().catch(() => {}) // what is undone has no result
  }
}

async function rows(query: string): Promise<unknown[]> {
  return example.db.query(query)
}
async function first(query: string): Promise<unknown> {
  const [row] = await example.db.query<{ value: unknown }>(query)
  return row?.value
}

/** What the jobs themselves say that each tenant owes. */
const owed = () =>
  rows(`select j.tenant, sum(p.cents)::int as cents from fencepost.jobs j join outbox.price p using (type)
        where j.status = 'completed' group by 1 order by 1`)
const balances = () =>
  rows('select tenant, cents::int as cents from outbox.account order by tenant')
const charged = () =>
  rows('select tenant, sum(cents)::int as cents from outbox.charge group by 1 order by 1')
/** Messages by their words. */
const messages = () =>
  rows(`select split_part(body, ': ', 2) as what, recipient, count(*)::int as count
        from outbox.message group by 1, 2 order by 1, 2`)
/** How many attempts of orders the log has, and how many were counted. */
const ended = () =>
  first(`select count(*)::int as value from fencepost.attempts a join fencepost.jobs j on j.id = a.job_id
         where j.type <> 'notification.send'`)
const counted = () =>
  first(
    `select coalesce(sum(attempts), 0)::int as value from outbox.by_type where type <> 'notification.send'`,
  )

describe('three consumers of one log', () => {
  it('each do their work, and one that is stopped delays no other', {
    timeout: 120_000,
  }, async () => {
    const stopAnalytics = run(consumers.analytics)
    const stopNotifications = run(consumers.notifications)
    const stopBilling = run(consumers.billing)

    await order('DE', 3)
    await expect.poll(balances).toEqual(await owed())
    await stopBilling()
    const before = await balances()

    await order('DE', 2)
    await order('AQ', 2)
    await expect.poll(counted).toBe(await ended())
    await expect.poll(messages).toEqual([
      { what: 'run.compensated', recipient: 'customer', count: 2 },
      { what: 'run.compensated', recipient: 'support', count: 2 },
      { what: 'run.completed', recipient: 'customer', count: 5 },
      { what: 'run.failed', recipient: 'support', count: 2 },
    ])
    expect(await balances()).toEqual(before)

    const stopAgain = run(consumers.billing)
    await expect.poll(balances).toEqual(await owed())
    await Promise.all([stopAgain(), stopAnalytics(), stopNotifications()])
    expect(await charged()).toEqual(await owed())
    expect(await first('select count(distinct event_id)::int as value from outbox.charge')).toBe(
      await first('select count(*)::int as value from outbox.charge'),
    )
  })

  it('analytics tells how often each type failed, and how long it took', async () => {
    expect(
      await rows(`select type, attempts::int, failure_rate, waited > '0' as waited, ran > '0' as ran from outbox.by_type
                  where type in ('order.charge', 'parcel.ship') order by type`),
    ).toEqual([
      { type: 'order.charge', attempts: 7, failure_rate: 0, waited: true, ran: true },
      { type: 'parcel.ship', attempts: 7, failure_rate: 2 / 7, waited: true, ran: true },
    ])
  })

  it('run as programs, until they are told to end', async () => {
    const main = path.join(root, 'dist/examples/outbox/main.js')
    const billing = spawn(process.execPath, [main, 'billing'], {
      env: process.env,
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const exit = once(billing, 'exit')
    await order('DE', 1)
    await expect.poll(balances).toEqual(await owed())
    billing.kill('SIGTERM')
    expect(await exit).toEqual([0, null])
  })

  it('take events from another source once, however often they come', async () => {
    const unsent = () =>
      first(`select count(*)::int as value from fencepost.jobs
             where type = 'notification.send' and status <> 'completed'`)
    const state = async () => {
      await expect.poll(unsent).toBe(0)
      return [await charged(), await balances(), await counted(), await messages()]
    }
    await rows('truncate outbox.charge, outbox.account, outbox.minute')
    const events = await logged()
    for (const consumer of Object.values(consumers)) {
      const { kinds } = consumer.filter
      await consumer.take(
        example.engine,
        events.filter(({ kind }) => kinds.includes(kind)),
      )
    }
    const before = await state()
    expect(before[1]).toEqual(await owed())
    for (const consumer of Object.values(consumers)) {
      for (const event of events) {
        if (consumer.filter.kinds.includes(event.kind)) await consumer.take(example.engine, [event])
      }
    }
    expect(await state()).toEqual(before)
  })
})

it('the README links to files that exist', () => {
  const links = linksOf('examples/outbox/README.md')
  expect(links.filter((file) => !existsSync(path.join(root, 'examples/outbox', file)))).toEqual([])
})

/** All events that are there now. */
async function logged(): Promise<LogEvent[]> {
  const count = await first(
    'select count(id)::int as value from fencepost.list_events(max => 10000)',
  )
  const events: LogEvent[] = []
  for await (const event of example.engine.follow({ after: 'beginning', logger: silentLogger })) {
    if (events.push(event) === count) break
  }
  return events
}
