import { connect } from '../lib/postgres.mjs'

const NAME = 'fencepost-bench'
const QUEUE = 'bench'
const VERSION = '1'

/** DBOS: a run is a function that calls its steps, in one process from its beginning to its end. */
export const dbos = {
  name: 'dbos',
  title: 'DBOS',
  store: 'postgres',
  package: '@dbos-inc/dbos-sdk',
  scenarios: ['workflow-linear', 'workflow-fan'],

  async load() {
    await library()
  },

  /** A worker makes its tables when it starts. */
  async install() {},

  workflows: {
    keeps: 'the workflow with its input and output, and the output of each step',
    durable:
      'a run stays in the process that took it; the result of each step is a commit of its own, and after a crash the run goes on behind the last one',
    settings: {
      linear: { startedBy: 'worker', inFlight: 500, pool: 20 },
      fan: { startedBy: 'worker', inFlight: 1, pool: 20 },
    },
    candidates: {
      linear: [10, 20, 40].flatMap((pool) => [
        ...[20, 100, 500].map((inFlight) => ({ startedBy: 'worker', inFlight, pool })),
        { pool, pollMs: 10 },
        { pool, pollMs: 10, workerConcurrency: 100 },
      ]),
      fan: [5, 10, 20, 40].map((pool) => ({ startedBy: 'worker', inFlight: 1, pool })),
    },

    /** Puts runs into a queue, where they wait until the worker takes them: a commit for each of `pool` parts. */
    async starter({ url }, { flow, settings }) {
      const { DBOSClient } = await library()
      const client = await DBOSClient.create({
        systemDatabaseUrl: url,
        systemDatabasePoolSize: settings.pool,
        applicationName: NAME,
      })
      const options = { workflowName: flow, queueName: QUEUE, appVersion: VERSION }
      const connections = await Promise.all(
        Array.from({ length: settings.pool }, () => connect(url)),
      )
      const part = async (connection, inputs) => {
        await connection.query('begin')
        for (const input of inputs) await client.enqueueInTransaction(connection, options, input)
        await connection.query('commit')
      }
      return {
        async start(inputs) {
          const size = Math.ceil(inputs.length / connections.length)
          const parts = connections.map((_, index) =>
            inputs.slice(index * size, (index + 1) * size),
          )
          await Promise.all(connections.map((connection, index) => part(connection, parts[index])))
        },
        async close() {
          await Promise.all(connections.map((connection) => connection.end()))
          await client.destroy()
        },
      }
    },

    async worker({ url }, { flow, settings, steps }) {
      const { DBOS } = await library()
      const { inFlight, pool, pollMs, workerConcurrency } = settings
      DBOS.setConfig({
        name: NAME,
        systemDatabaseUrl: url,
        systemDatabasePoolSize: pool,
        applicationVersion: VERSION,
        logLevel: 'error',
      })
      const run = DBOS.registerWorkflow(functions(DBOS, steps)[flow], { name: flow })
      await DBOS.launch()
      if (pollMs !== undefined) {
        await DBOS.registerQueue(QUEUE, { workerConcurrency, minPollingIntervalMs: pollMs })
      }
      return {
        /** Starts runs in this process, as many at a time as `inFlight` says, until all have ended. */
        async start(inputs) {
          const waiting = inputs.values()
          const lane = async () => {
            for (const input of waiting) await (await DBOS.startWorkflow(run)(input)).getResult()
          }
          await Promise.all(Array.from({ length: inFlight }, lane))
        },
        stop: () => DBOS.shutdown(),
      }
    },

    async observer({ url }) {
      const client = await connect(url)
      return {
        async isSettled() {
          const { rows } = await client.query(
            `select from dbos.workflow_status where status in ('ENQUEUED', 'PENDING') limit 1`,
          )
          return rows.length === 0
        },
        async completed() {
          const { rows } = await client.query(
            `select count(*)::int as count from dbos.workflow_status where status = 'SUCCESS'`,
          )
          return rows[0].count
        },
        close: () => client.end(),
      }
    },
  },
}

const functions = (DBOS, steps) => ({
  async linear(input) {
    const first = await DBOS.runStep(async () => steps.step(1, input), { name: 'first' })
    const second = await DBOS.runStep(async () => steps.step(2, first), { name: 'second' })
    return await DBOS.runStep(async () => steps.step(3, second), { name: 'third' })
  },

  async fan({ items }) {
    const results = await Promise.all(
      items.map((item) => DBOS.runStep(async () => steps.item(item), { name: 'each' })),
    )
    return await DBOS.runStep(async () => steps.join(results), { name: 'join' })
  },
})

const library = () => import('@dbos-inc/dbos-sdk')
