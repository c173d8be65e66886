// A worker of this package for the fault tests: its handlers and their ledger are those of handlers.mjs.

import { connect, defineJob, Fencepost, PermanentError } from 'fencepost'
import { makeHandlers } from './handlers.mjs'

const told = JSON.parse(process.argv[2])
const { url, types, name, slot, concurrency, ttl, listen, prepare } = told
const { note, handlers } = makeHandlers(told)
const engine = new Fencepost({ url, prepare })
/** The application's own connections. */
const app = connect({ url, prepare })

const definitions = types.map((type) => defineJob({ type, run: runnerOf(handlers[type]) }))

function runnerOf(handler) {
  return async (payload, ctx) => {
    const attempt = { job: ctx.jobId, token: ctx.token, signal: ctx.signal }
    const transact = (work) =>
      app.transaction((tx) =>
        work({
          write: (text, params) => tx.query(text, params),
          complete: () => ctx.complete(tx),
        }),
      )
    try {
      await handler(payload, attempt, transact)
    } catch (error) {
      throw error.permanent ? new PermanentError(error.message) : error
    } finally {
      process.send({ done: 1 })
    }
  }
}

const worker = engine.worker(definitions, {
  name,
  slot,
  concurrency,
  ttl,
  listen,
  onAttempt: ({ job, token, outcome }) => {
    if (outcome === 'completed') note('accepted', { job, token })
  },
})
process.on('SIGTERM', async () => {
  await worker.stop()
  await app.close()
  await engine.close()
  process.exit(0)
})
await worker.start()
process.send({ ready: true })
