// A worker of bare SQL calls, one exchange after the other: what the engine itself promises, without
// the care of our worker. After a lost connection it registers anew and forgets what it held.

import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from '../../dist/database/database.js'
import { complete, exchange, fail, maintain, registerWorker } from '../../dist/database/engine.js'
import { makeHandlers } from './handlers.mjs'

const options = JSON.parse(process.argv[2])
const { url, types, name, slot, concurrency, ttl } = options
const { note, handlers } = makeHandlers(options)
const db = connect({ url, max: concurrency })

let incarnation = 0
let running = new Map()
let results = []
let stopping = false
let wake = () => {}
process.on('SIGTERM', () => {
  stopping = true
  wake()
})

async function register() {
  while (true) {
    try {
      incarnation = await registerWorker(db, { name, slot, types, ttl })
      running = new Map()
      results = []
      return
    } catch {
      await sleep(50)
    }
  }
}

async function round() {
  const sent = results
  results = []
  const answers = await exchange(db, {
    worker_id: incarnation,
    completed: pairs(sent),
    running: pairs([...running.values()]),
    types,
    max: stopping ? 0 : concurrency - running.size,
  })
  const lost = new Set(answers.filter(is('lost')).map(key))
  for (const each of sent) if (!lost.has(key(each))) note('accepted', attemptOf(each))
  for (const each of answers.filter(is('run'))) void run(each)
}

async function run(claimed) {
  const mine = running
  mine.set(claimed.job_id, claimed)
  let settled = false
  const transact = async (work) => {
    await db.transaction((tx) =>
      work({
        write: (text, params) => tx.query(text, params),
        complete: () => complete(tx, claimed.job_id, claimed.token),
      }),
    )
    settled = true
  }
  try {
    await handlers[claimed.type](claimed.payload, attemptOf(claimed), transact)
  } catch (error) {
    settled = true
    // Refused or without an answer, the attempt is another's, or will be when its lease is taken back.
    const failure = { error: error.message, permanent: error.permanent === true }
    await fail(db, claimed.job_id, claimed.token, failure).catch(() => {})
  }
  mine.delete(claimed.job_id)
  if (mine === running && !settled) results.push(claimed)
  process.send({ done: 1 })
  wake()
}

const is = (directive) => (answer) => answer.directive === directive
const key = ({ job_id, token }) => `${job_id} ${token}`
const attemptOf = ({ job_id, token }) => ({ job: job_id, token })
const pairs = (all) => ({
  job_ids: all.map(({ job_id }) => job_id),
  tokens: all.map(({ token }) => token),
})

await register()
process.send({ ready: true })
let maintained = 0
while (!stopping || running.size > 0 || results.length > 0) {
  try {
    await round()
    if (Date.now() - maintained > 1_000) {
      await maintain(db)
      maintained = Date.now()
    }
  } catch (error) {
    process.stdout.write(`${error.code} ${error.message}\n`)
    await sleep(50)
    await register()
  }
  if (results.length === 0) {
    await Promise.race([sleep(20), new Promise((resolve) => (wake = resolve))])
  }
}
await db.close()
process.exit(0)
