// A worker that stops at a point of its way, says so, and waits: to be killed, or to be told to go on. It is told its
// types, and the point: one of those below, on the way of the job of one type.
//
// Its database is the real one. What it sends and gets passes through here, so that a point is met for sure.

import { connect, defineJob, Fencepost } from '../../dist/index.js'

const { url, types, point, type, options } = JSON.parse(process.argv[2])
const db = connect({ url, applicationName: options.name })
const told = new Promise((resolve) => process.once('message', resolve))

/** The type of each job that was claimed. */
const typeOf = new Map()

async function pass(here, types) {
  if (here !== point || !types.includes(type)) return
  process.send({ event: 'reached' })
  await told
}

/** A round of the worker: results in, jobs out. */
async function round(text, params, rest) {
  const ended = argument(text, params, 'completed_ids')?.map((id) => typeOf.get(id)) ?? []
  await pass('before completion', ended)
  await pass('before claim', argument(text, params, 'types') ?? [])
  const rows = await db.query(text, params, ...rest)
  const claimed = rows.filter(({ directive }) => directive === 'run')
  for (const job of claimed) typeOf.set(job.job_id, job.type)
  await pass('after completion', ended)
  await pass(
    'after claim',
    claimed.map((job) => job.type),
  )
  return rows
}

/** What a call gives for a parameter, in named notation; undefined when it gives nothing. */
function argument(text, params, name) {
  const [, place] = new RegExp(`\\b${name} => \\$(\\d+)`).exec(text) ?? []
  return place === undefined ? undefined : params[place - 1]
}

const database = {
  query: (text, params, ...rest) =>
    text.includes('fencepost.exchange(')
      ? round(text, params, rest)
      : db.query(text, params, ...rest),
  transaction: (run) => db.transaction(run),
  close: () => db.close(),
  [Symbol.asyncDispose]: () => db.close(),
}

const definitions = types.map((own) =>
  defineJob({
    type: own,
    run: async () => {
      await pass('mid-handler', [own])
      return 'victim'
    },
  }),
)
const worker = new Fencepost({ database }).worker(definitions, options)
// A test that was given up leaves no process behind.
process.once('disconnect', () => process.exit(1))
await worker.start()
