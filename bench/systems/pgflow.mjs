import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pinnedFile } from '../lib/pinned.mjs'
import { connect } from '../lib/postgres.mjs'

/** pgmq, which pgflow queues its tasks with: an extension of plain SQL, here without being one. */
const PGMQ = {
  repository: 'pgmq/pgmq',
  commit: '7fd411d8ffd53b5313039f59167124c861d46430',
  file: 'pgmq-extension/sql/pgmq.sql',
  sha256: '65b9302faa660539584769a572b57f2df76ccf1b3a2153c37cefc57b8db633e9',
}

/**
 * What Supabase has and this server has not. Nothing of it is called in the benchmark but
 * `realtime.send`, which there writes a row for each event of a run and here does nothing.
 */
const SUPABASE = `
  create schema realtime;
  create function realtime.send(payload jsonb, event text, topic text, private boolean default true)
    returns void language sql as '';
  create schema cron;
  create function cron.schedule(job_name text, schedule text, command text)
    returns bigint language sql as 'select 1::bigint';
  create function cron.unschedule(job_name text) returns boolean language sql as 'select true'`

/** How long a message stays hidden, in seconds, before the task is started. */
const VISIBILITY = 60

/**
 * pgflow's SQL core, called through its own client for Node. Its worker runs on Deno only, so the loop
 * around that client is ours; it does what that worker does: read, start, handle, complete one by one.
 */
export const pgflow = {
  name: 'pgflow',
  title: 'pgflow',
  store: 'postgres',
  package: '@pgflow/core',
  scenarios: ['workflow-linear', 'workflow-fan'],

  async load() {
    await import('@pgflow/core')
    await pinnedFile(PGMQ)
  },

  async install({ url }) {
    const client = await connect(url)
    await client.query(await pinnedFile(PGMQ))
    await client.query(SUPABASE)
    for (const migration of migrations()) await client.query(migration)
    await client.query(`
      select pgflow.create_flow('linear');
      select pgflow.add_step('linear', 'first');
      select pgflow.add_step('linear', 'second', array['first']);
      select pgflow.add_step('linear', 'third', array['second']);
      select pgflow.create_flow('fan');
      select pgflow.add_step('fan', 'each', step_type => 'map');
      select pgflow.add_step('fan', 'join', array['each'])`)
    await client.end()
  },

  workflows: {
    keeps: 'the run, the state and output of each step and task, and the archived messages',
    durable:
      'each step is a message of its own, which any worker may take; its result, the move of the run and the next message are one commit',
    settings: {
      linear: { pool: 10, batch: 100 },
      fan: { pool: 5, batch: 100 },
    },
    candidates: {
      linear: [10, 20, 40].flatMap((pool) => [20, 100, 500].map((batch) => ({ pool, batch }))),
      fan: [5, 10, 20].flatMap((pool) => [100, 500].map((batch) => ({ pool, batch }))),
    },

    async starter({ url }, { flow, settings }) {
      const { sql, client } = await open(url, settings.pool)
      const given = { linear: (input) => input, fan: ({ items }) => items }[flow]
      return {
        start: (inputs) => Promise.all(inputs.map((input) => client.startFlow(flow, given(input)))),
        close: () => sql.end(),
      }
    },

    async worker({ url }, { flow, settings, steps }) {
      const { sql, client } = await open(url, settings.pool)
      const worker = crypto.randomUUID()
      await sql`insert into pgflow.workers (worker_id, queue_name, function_name)
                values (${worker}, ${flow}, 'bench')`
      const handlers = handlersOf(steps)
      let stopped = false
      const handle = async (task) => {
        const output = handlers[task.step_slug](task.input)
        await client.completeTask(task, output)
      }
      const loop = async () => {
        const running = new Set()
        while (!stopped) {
          const room = settings.batch - running.size
          const messages = await client.readMessages(flow, VISIBILITY, room, 1, 10)
          if (messages.length === 0) continue
          const ids = messages.map(({ msg_id }) => msg_id)
          for (const task of await client.startTasks(flow, ids, worker)) {
            const ended = handle(task).finally(() => running.delete(ended))
            running.add(ended)
          }
          while (running.size > settings.batch / 2) await Promise.race(running)
        }
        await Promise.all(running)
      }
      const ended = loop()
      return {
        async stop() {
          stopped = true
          await ended
          await sql.end()
        },
      }
    },

    async observer({ url }) {
      const client = await connect(url)
      return {
        async isSettled() {
          const { rows } = await client.query(
            `select from pgflow.runs where status = 'started' limit 1`,
          )
          return rows.length === 0
        },
        async completed() {
          const { rows } = await client.query(
            `select count(*)::int as count from pgflow.runs where status = 'completed'`,
          )
          return rows[0].count
        },
        close: () => client.end(),
      }
    },
  },
}

const handlersOf = (steps) => ({
  first: ({ run }) => steps.step(1, run),
  second: ({ first }) => steps.step(2, first),
  third: ({ second }) => steps.step(3, second),
  each: (item) => steps.item(item),
  join: ({ each }) => steps.join(each),
})

/** Those of the package, in their order, without the extensions that are stood in for above. */
function migrations() {
  const main = createRequire(import.meta.url).resolve('@pgflow/core/package.json')
  const folder = path.join(path.dirname(main), 'dist/supabase/migrations')
  return readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => readFileSync(path.join(folder, name), 'utf8'))
    .map((text) => text.replaceAll(/^create extension .*;$/gim, ''))
}

async function open(url, max) {
  const { default: postgres } = await import('postgres')
  const { PgflowSqlClient } = await import('@pgflow/core')
  const sql = postgres(url, { max, onnotice: () => {} })
  return { sql, client: new PgflowSqlClient(sql) }
}
