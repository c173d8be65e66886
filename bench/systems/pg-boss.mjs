import { connect } from '../lib/postgres.mjs'

const QUEUE = 'bench'
/** The shortest that it allows, for a job whose notification meets a worker that is just busy. */
const POLLING = { pollingIntervalSeconds: 0.5, notifyPollingIntervalSeconds: 0.5 }

/** pg-boss, fetching in batches, without a pause while batches are full, woken by NOTIFY. */
export const pgBoss = {
  name: 'pg-boss',
  title: 'pg-boss',
  store: 'postgres',
  package: 'pg-boss',
  keeps: 'the finished job with its state, as the same row, for 7 days; no history of attempts',
  settings: {
    throughput: { batchSize: 2000, localConcurrency: 2, burstWhenBatchFull: true },
    latency: { batchSize: 100, localConcurrency: 2, burstWhenBatchFull: true },
  },
  candidates: {
    throughput: [500, 1000, 2000, 4000].flatMap((batchSize) =>
      [1, 2, 4].map((localConcurrency) => ({
        batchSize,
        localConcurrency,
        burstWhenBatchFull: true,
      })),
    ),
    latency: [1, 2, 4].flatMap((localConcurrency) => [
      { batchSize: 1, localConcurrency },
      { batchSize: 100, localConcurrency, burstWhenBatchFull: true },
    ]),
  },

  async load() {
    await import('pg-boss')
  },

  async install({ url }) {
    const boss = await start(url, { supervise: false })
    await boss.createQueue(QUEUE, { notify: true, partition: true })
    await boss.stop({ graceful: false })
  },

  async producer({ url }, { connections = 1 } = {}) {
    const boss = await start(url, { supervise: false, max: connections })
    return {
      one: (data) => boss.send(QUEUE, data),
      batch: (payloads) =>
        boss.insert(
          QUEUE,
          payloads.map((data) => ({ data })),
        ),
      close: () => boss.stop({ graceful: false }),
    }
  },

  async worker({ url }, { settings, handle }) {
    const boss = await start(url, { useListenNotify: true })
    await boss.work(QUEUE, { ...POLLING, ...settings }, async (jobs) => {
      for (const { data } of jobs) handle(data)
    })
    return { stop: () => boss.stop({ timeout: 5000 }) }
  },

  async observer({ url }) {
    const client = await connect(url)
    return {
      isDrained: async () => {
        const { rows } = await client.query(
          `select from pgboss.job where name = $1 and state < 'completed' limit 1`,
          [QUEUE],
        )
        return rows.length === 0
      },
      close: () => client.end(),
    }
  },
}

async function start(connectionString, options) {
  const { PgBoss } = await import('pg-boss')
  const boss = new PgBoss({ connectionString, schedule: false, ...options })
  boss.on('error', (error) => console.error(`pg-boss: ${error.message}`))
  await boss.start()
  return boss
}
