// A worker of bare SQL calls for the fault tests.
import { openSync, writeSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from '../../dist/database/database.js'
import { exchange, registerWorker } from '../../dist/database/engine.js'

const { url, types, directory, name, concurrency, ttl } = JSON.parse(process.argv[2])
const file = openSync(path.join(directory, `${name}-${process.pid}`), 'a')
const note = (what, job, token) => writeSync(file, `${what} ${job} ${token}\n`)
const db = connect({ url, max: 3 })
let stopping = false
process.on('SIGTERM', () => {
  stopping = true
})
process.on('disconnect', () => process.exit(1))

let id,
  results = [],
  running = new Map(),
  done = 0
let idle = () => {}

async function register() {
  for (;;) {
    try {
      id = await registerWorker(db, { name, types, ttl })
      running = new Map()
      results = []
      return
    } catch {
      await sleep(50)
    }
  }
}
await register()
process.send({ ready: true })
let last = 0
for (;;) {
  const sent = results
  results = []
  try {
    const rows = await exchange(
      db,
      {
        worker_id: id,
        completed: { job_ids: sent.map((r) => r.job_id), tokens: sent.map((r) => r.token) },
        running: {
          job_ids: [...running.values()].map((r) => r.job_id),
          tokens: [...running.values()].map((r) => r.token),
        },
        types,
        max: stopping ? 0 : concurrency - running.size,
      },
      { timeout: 5000 },
    )
    const lost = new Set(
      rows.filter((r) => r.directive === 'lost').map((r) => `${r.job_id} ${r.token}`),
    )
    for (const r of sent)
      if (!lost.has(`${r.job_id} ${r.token}`)) note('accepted', r.job_id, r.token)
    const jobs = rows.filter((r) => r.directive === 'run')
    for (const job of jobs) void run(job)
    if (Date.now() - last > 1000) {
      last = Date.now()
      await db.query('select fencepost.maintain()').catch(() => {})
    }
    if (stopping && running.size === 0 && results.length === 0) break
    if (jobs.length === 0 && results.length === 0)
      await Promise.race([
        sleep(20),
        new Promise((r) => {
          idle = r
        }),
      ])
  } catch (error) {
    process.stdout.write(`${error.code} ${error.message}\n`)
    await sleep(50)
    await register()
  }
}
await db.close()
process.exit(0)

async function run(job) {
  const mine = running
  running.set(job.job_id, job)
  note('begun', job.job_id, job.token)
  await sleep(Math.random() * 4)
  note('done', job.job_id, job.token)
  if (mine !== running) return
  running.delete(job.job_id)
  results.push(job)
  if (++done % 50 === 0) process.send({ done: 50 })
  idle()
}
