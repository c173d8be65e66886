import { connect } from '../lib/postgres.mjs'

const TASK = 'bench'

/** graphile-worker with its batching on. */
export const graphileWorker = {
  name: 'graphile-worker',
  title: 'graphile-worker, batched',
  store: 'postgres',
  package: 'graphile-worker',
  keeps: 'nothing: a finished job is deleted; no history, no events',
  settings: {
    throughput: batched(24, 2000, 0),
    latency: { concurrentJobs: 24, maxPoolSize: 25 },
  },
  candidates: {
    throughput: [500, 1000, 2000, 4000].flatMap((size) =>
      [24, 100].flatMap((jobs) => [0, 10].map((delay) => batched(jobs, size, delay))),
    ),
    latency: [
      { concurrentJobs: 4, maxPoolSize: 25 },
      { concurrentJobs: 24, maxPoolSize: 25 },
      { concurrentJobs: 24, maxPoolSize: 25, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
      batched(24, 25, 0),
      batched(24, 500, 0),
    ],
  },

  async load() {
    await import('graphile-worker')
  },

  async install({ url }) {
    const { runMigrations } = await import('graphile-worker')
    await runMigrations({ connectionString: url, logger: await silent() })
  },

  async producer({ url }, { connections = 1 } = {}) {
    const { makeWorkerUtils } = await import('graphile-worker')
    const utils = await makeWorkerUtils({
      connectionString: url,
      maxPoolSize: Math.max(connections, 2),
      logger: await silent(),
    })
    return {
      one: (payload) => utils.addJob(TASK, payload),
      batch: (payloads) =>
        utils.addJobs(payloads.map((payload) => ({ identifier: TASK, payload }))),
      close: () => utils.release(),
    }
  },

  async worker({ url }, { settings, handle }) {
    const { run } = await import('graphile-worker')
    const runner = await run({
      preset: { worker: { connectionString: url, ...settings } },
      taskList: { [TASK]: async (payload) => handle(payload) },
      crontab: '',
      noHandleSignals: true,
      logger: await silent(),
    })
    return { stop: () => runner.stop() }
  },

  async observer({ url }) {
    const client = await connect(url)
    return {
      isDrained: async () => {
        const { rows } = await client.query('select from graphile_worker._private_jobs limit 1')
        return rows.length === 0
      },
      close: () => client.end(),
    }
  },
}

/** Its performance test has 24 jobs at a time, a local queue of 500 and no delay. */
function batched(concurrentJobs, size, delay) {
  return {
    concurrentJobs,
    maxPoolSize: 25,
    localQueue: { size },
    completeJobBatchDelay: delay,
    failJobBatchDelay: delay,
  }
}

async function silent() {
  const { Logger } = await import('graphile-worker')
  return new Logger(() => () => {})
}
