import { connect } from '../lib/postgres.mjs'
import { fencepostWorkflows } from './fencepost-workflows.mjs'

const TYPE = 'bench'

/** Fencepost, through its TypeScript client and worker as they ship. */
export const fencepost = {
  name: 'fencepost',
  title: 'Fencepost',
  store: 'postgres',
  package: 'fencepost',
  keeps: 'the job, its attempts and its events, for 7 days',
  settings: {
    throughput: { concurrency: 1000 },
    latency: { concurrency: 10 },
  },
  candidates: {
    throughput: [100, 500, 1000, 2000].flatMap((concurrency) =>
      [concurrency, 2 * concurrency].map((prefetch) => ({ concurrency, prefetch })),
    ),
    latency: [1, 10, 100].map((concurrency) => ({ concurrency })),
  },
  workflows: fencepostWorkflows,

  async load() {
    await library()
  },

  async install({ url }) {
    const { migrate } = await import('../../dist/database/migrate.js')
    await migrate(url)
  },

  async producer({ url }, { connections = 2 } = {}) {
    const { Fencepost, defineJob } = await library()
    const job = defineJob({ type: TYPE })
    const engine = new Fencepost({ url, max: Math.max(connections, 2) })
    return {
      one: (payload) => engine.enqueue(job, payload),
      batch: (payloads) => engine.enqueueBatch(job, payloads),
      close: () => engine.close(),
    }
  },

  async worker({ url }, { settings, handle }) {
    const { Fencepost, defineJob, silentLogger } = await library()
    const job = defineJob({ type: TYPE, run: (payload) => handle(payload) })
    const engine = new Fencepost({ url })
    const worker = engine.worker([job], { logger: silentLogger, ...settings })
    await worker.start()
    return {
      async stop() {
        await worker.stop()
        await engine.close()
      },
    }
  },

  async observer({ url }) {
    const client = await connect(url)
    return {
      isDrained: async () => {
        const { rows } = await client.query(
          `select from fencepost.jobs where status in ('pending', 'running') limit 1`,
        )
        return rows.length === 0
      },
      close: () => client.end(),
    }
  },
}

const library = () => import('../../dist/index.js')
