// A worker process for tests, run by node from the built package. It is told what to be by a JSON text, says what
// happens over IPC, and ends on SIGTERM as a service does.

import { defineJob, Fencepost } from '../../dist/index.js'

const { url, options, clock = 0 } = JSON.parse(process.argv[2])
if (clock !== 0) {
  const { now } = Date
  Date.now = () => now() + clock
}
const say = (event, more = {}) => process.send({ event, ...more })
const released = new Promise((resolve) => process.once('message', resolve))

/** Holds its job until the signal fires or the test says go; then tries all that a stale attempt might write. */
const hold = defineJob({
  type: 'process.hold',
  run: async (_, ctx) => {
    const { jobId, token } = ctx
    say('started', { jobId, token })
    const aborted = new Promise((resolve) => {
      ctx.signal.addEventListener('abort', () => resolve(ctx.signal.reason))
    })
    const reason = await Promise.race([aborted, released.then(() => undefined)])
    if (reason === undefined) return 'held'
    const writes = [
      ctx.progress(1),
      ctx.step('late', () => 1),
      ctx.complete({ query: (...call) => engine.database.query(...call) }),
    ]
    const refusals = await Promise.allSettled(writes)
    say('aborted', {
      jobId,
      token,
      why: reason.why,
      codes: refusals.map(({ reason: error }) => error?.code),
    })
    throw reason
  },
})

/** Does nothing but turn, for so many ms. */
const block = defineJob({
  type: 'process.block',
  run: ({ ms }, { token }) => {
    say('blocking')
    const until = performance.now() + ms
    while (performance.now() < until);
    return { token }
  },
})

const echo = defineJob({ type: 'process.echo', run: (payload) => payload })

const engine = new Fencepost({ url })
const worker = engine.worker([hold, block, echo], options)
process.once('SIGTERM', async () => {
  const closed = engine.close()
  say('stopping')
  await closed
  process.exit(0)
})
// A test that was given up leaves no process behind.
process.once('disconnect', () => process.exit(1))
await worker.start()
say('ready', { workerId: worker.id })
