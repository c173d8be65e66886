// A worker of this package for the fault tests: its handlers and their ledger are those of handlers.mjs.

import { connect } from '../../dist/database/database.js'
import { defineJob } from '../../dist/definitions/define-job.js'
import { PermanentError } from '../../dist/worker/failure.js'
import { Worker } from '../../dist/worker/worker.js'
import { makeHandlers } from './handlers.mjs'

const options = JSON.parse(process.argv[2])
const { url, types, name, slot, concurrency, ttl, listen, prepare } = options
const { note, handlers } = makeHandlers(options)
const app = connect({ url, max: 10, prepare })

const definitions = types.map((type) =>
  defineJob({
    type,
    run: async (payload, ctx) => {
      const attempt = { job: ctx.jobId, token: ctx.token, signal: ctx.signal }
      const transact = (work) =>
        app.transaction((tx) =>
          work({
            write: (text, params) => tx.query(text, params),
            complete: () => ctx.complete(tx),
          }),
        )
      try {
        await handlers[type](payload, attempt, transact)
      } catch (error) {
        throw error.permanent ? new PermanentError(error.message) : error
      } finally {
        process.send({ done: 1 })
      }
    },
  }),
)

const worker = new Worker(
  definitions,
  {
    name,
    slot,
    concurrency,
    ttl,
    listen,
    onAttempt: ({ job, token, outcome }) => {
      if (outcome === 'completed') note('accepted', { job, token })
    },
  },
  { db: connect({ url, max: 5, prepare }), url, prepare },
)
process.on('SIGTERM', async () => {
  await worker.stop()
  await app.close()
  process.exit(0)
})
await worker.start()
process.send({ ready: true })
