import { connect } from '../lib/postgres.mjs'

/** Fencepost's workflows, through `defineWorkflow`, `startMany` and a worker as they ship. */
export const fencepostWorkflows = {
  keeps: 'the run, its tasks with their outputs, their jobs, attempts and events',
  durable:
    'each step is a job of its own, which any worker may take; its result, the move of the run and the next step’s job are one commit',
  settings: {
    linear: { concurrency: 500 },
    fan: { concurrency: 1000 },
  },
  candidates: {
    linear: [200, 350, 500, 1000].map((concurrency) => ({ concurrency })),
    fan: [100, 500, 1000].map((concurrency) => ({ concurrency })),
  },

  async starter({ url }, { flow }) {
    const { Fencepost } = await library()
    const engine = new Fencepost({ url })
    const { workflow } = await definitions[flow]()
    await engine.publish(workflow)
    return {
      start: (inputs) => engine.startMany(workflow, inputs),
      close: () => engine.close(),
    }
  },

  async worker({ url }, { flow, settings, steps }) {
    const { Fencepost, silentLogger } = await library()
    const { jobs } = await definitions[flow](steps)
    const engine = new Fencepost({ url })
    const worker = engine.worker(jobs, { logger: silentLogger, ...settings })
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
      async isSettled() {
        const { rows } = await client.query(
          `select from fencepost.runs where finished_at is null limit 1`,
        )
        return rows.length === 0
      },
      async completed() {
        const { rows } = await client.query(
          `select count(*)::int as count from fencepost.runs where status = 'completed'`,
        )
        return rows[0].count
      },
      close: () => client.end(),
    }
  },
}

const definitions = {
  /** The payload of a job is the run's input and the outputs of the tasks that it waited for. */
  async linear(steps) {
    const { defineJob, defineWorkflow } = await library()
    const first = defineJob({ type: 'bench.first', run: ({ input }) => steps.step(1, input) })
    const second = defineJob({
      type: 'bench.second',
      run: ({ tasks }) => steps.step(2, tasks.first),
    })
    const third = defineJob({
      type: 'bench.third',
      run: ({ tasks }) => steps.step(3, tasks.second),
    })
    const workflow = defineWorkflow('bench.linear')
      .task('first', { type: first })
      .task('second', { type: second, after: ['first'] })
      .task('third', { type: third, after: ['second'] })
    return { jobs: [first, second, third], workflow }
  },

  async fan(steps) {
    const { defineJob, defineWorkflow } = await library()
    const each = defineJob({ type: 'bench.each', run: ({ item }) => steps.item(item) })
    const join = defineJob({ type: 'bench.join', run: ({ tasks }) => steps.join(tasks.each) })
    const workflow = defineWorkflow('bench.fan')
      .map('each', { type: each, over: '$.input.items' })
      .task('join', { type: join, after: ['each'], input: { tasks: { each: '$.tasks.each' } } })
    return { jobs: [each, join], workflow }
  },
}

const library = () => import('../../dist/index.js')
