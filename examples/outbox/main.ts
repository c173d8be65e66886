// Runs a consumer until it is told to end: node dist/examples/outbox/main.js analytics|billing|notifications [kafka]

import { createLogger, Fencepost } from 'fencepost'
import { sql } from '../database.ts'
import { analytics } from './analytics.ts'
import { billing } from './billing.ts'
import { followTopics } from './kafka.ts'
import { notifications, send } from './notifications.ts'
import { prepare } from './tables.ts'

const [name, source = 'log'] = process.argv.slice(2)
const consumer = [analytics, billing, notifications].find((each) => each.name === name)
if (consumer === undefined) throw new Error(`there is no consumer ${name}`)

const end = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => end.abort())

await prepare()
const engine = new Fencepost({ url: process.env.DATABASE_URL ?? '' })
const logger = createLogger()
const options = { signal: end.signal, logger }
// the messages are jobs, and somebody has to send them
if (consumer === notifications) await engine.worker([send], { logger }).start()
if (source === 'kafka') {
  await followTopics(engine, consumer, options)
} else {
  await engine.createConsumer(consumer.name, { filter: consumer.filter, start: 'beginning' })
  await consumer.run(engine, options)
}
await engine.close()
await sql.end()
