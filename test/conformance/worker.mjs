// A worker of this package for the conformance tests: node worker.mjs DATABASE_URL TYPE[,TYPE...]

import { defineJob, Fencepost, PermanentError, silentLogger } from 'fencepost'
import { handle } from './handler.mjs'

const [url, types] = process.argv.slice(2)
const engine = new Fencepost({ url })

const definitions = types.split(',').map((type) => defineJob({ type, run }))

async function run(payload, { signal }) {
  try {
    return await handle(payload, signal)
  } catch (error) {
    throw error.permanent ? new PermanentError(error.message) : error
  }
}

const worker = engine.worker(definitions, { concurrency: 1, poll: '1s', logger: silentLogger })
process.on('SIGTERM', async () => {
  await worker.stop()
  await engine.close()
})
await worker.start()
