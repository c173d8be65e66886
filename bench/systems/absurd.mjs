import pg from 'pg'
import { pinnedFile } from '../lib/pinned.mjs'
import { connect } from '../lib/postgres.mjs'

const QUEUE = 'bench'

/** Its npm package has the client only; this is the schema of the same release. */
const SCHEMA = {
  repository: 'earendil-works/absurd',
  commit: '05282a40c8dddc378acdc6933adc4c221583808a',
  file: 'sql/absurd.sql',
  sha256: 'c2ed3a301aa2a4782257843e514e8057c3049de5998ea8dc632a1a159464b51c',
}

/** absurd: a run is a task, claimed whole; its steps are checkpoints that it writes. */
export const absurd = {
  name: 'absurd',
  title: 'absurd',
  store: 'postgres',
  package: 'absurd-sdk',
  scenarios: ['workflow-linear', 'workflow-fan'],

  async load() {
    await import('absurd-sdk')
    await pinnedFile(SCHEMA)
  },

  async install({ url }) {
    const client = await connect(url)
    await client.query(await pinnedFile(SCHEMA))
    await client.query('select absurd.create_queue($1)', [QUEUE])
    await client.end()
  },

  workflows: {
    keeps: 'the task with its input and result, its attempts, and a checkpoint for each step',
    durable:
      'a run stays in the process that claimed it; each checkpoint is a commit of its own, and after a crash the run goes on behind the last one',
    settings: {
      linear: { concurrency: 500, pool: 20 },
      fan: { concurrency: 1, pool: 5 },
    },
    candidates: {
      linear: [10, 20, 40].flatMap((pool) =>
        [20, 100, 500].map((concurrency) => ({ concurrency, pool })),
      ),
      fan: [5, 10, 20, 40].map((pool) => ({ concurrency: 1, pool })),
    },

    async starter({ url }, { flow, settings }) {
      const app = await open(url, settings.pool)
      return {
        start: (inputs) =>
          Promise.all(inputs.map((input) => app.spawn(flow, input, { queue: QUEUE }))),
        close: () => app.close(),
      }
    },

    async worker({ url }, { flow, settings, steps }) {
      const app = await open(url, settings.pool)
      app.registerTask({ name: flow }, tasks(steps)[flow])
      const worker = await app.startWorker({
        concurrency: settings.concurrency,
        pollInterval: 0.01,
        onError: (error) => console.error(`absurd: ${error.message}`),
      })
      return { stop: () => worker.close() }
    },

    async observer({ url }) {
      const client = await connect(url)
      return {
        async isSettled() {
          const { rows } = await client.query(
            `select from absurd.t_${QUEUE} where state not in ('completed', 'failed', 'cancelled') limit 1`,
          )
          return rows.length === 0
        },
        async completed() {
          const { rows } = await client.query(
            `select count(*)::int as count from absurd.t_${QUEUE} where state = 'completed'`,
          )
          return rows[0].count
        },
        close: () => client.end(),
      }
    },
  },
}

const tasks = (steps) => ({
  async linear(input, context) {
    const first = await context.step('first', async () => steps.step(1, input))
    const second = await context.step('second', async () => steps.step(2, first))
    return await context.step('third', async () => steps.step(3, second))
  },

  async fan({ items }, context) {
    const results = await Promise.all(
      items.map((item) => context.step('each', async () => steps.item(item))),
    )
    return await context.step('join', async () => steps.join(results))
  },
})

async function open(connectionString, max) {
  const { Absurd } = await import('absurd-sdk')
  const pool = new pg.Pool({ connectionString, max })
  pool.on('error', () => {})
  return new Absurd({ db: pool, queueName: QUEUE })
}
