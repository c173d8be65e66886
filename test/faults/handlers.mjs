// What the jobs of the fault tests do, in any worker: each handler writes down in the ledger what it
// does, and has its effect outside the engine's tables.

import { openSync, writeSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * The handlers of one process, by type. Each gets a payload, an attempt { job, token, signal }, and
 * `transact(run)`, which runs `run({ write, complete })` in one transaction of the application's own.
 */
export function makeHandlers({ directory, name, slot, doom }) {
  const file = openSync(path.join(directory, `${name}-${slot}-${process.pid}`), 'a')
  const note = (what, { job, token }) => writeSync(file, `${what} ${job} ${token}\n`)
  const pass = gate(doom)

  async function quick(_payload, attempt) {
    note('begun', attempt)
    await sleep(Math.random() * 4)
    note('done', attempt)
  }

  async function slow({ ms = 1_000 }, attempt) {
    note('begun', attempt)
    await sleep(ms, undefined, { signal: attempt.signal })
    note('done', attempt)
  }

  async function flaky(_payload, attempt) {
    note('begun', attempt)
    await sleep(Math.random() * 4)
    if (Math.random() < 0.3) throw new Error('not this time')
    note('done', attempt)
  }

  async function hopeless(_payload, attempt) {
    note('begun', attempt)
    throw Object.assign(new Error('it will never work'), { permanent: true })
  }

  /** Ends long after its lease may have been lost, whatever its signal says. */
  async function stubborn({ ms = 1_000 }, attempt, transact) {
    note('begun', attempt)
    await sleep(ms)
    await transact(async ({ write, complete }) => {
      await write('insert into effect (job_id, token) values ($1, $2)', [
        attempt.job,
        attempt.token,
      ])
      note('done', attempt)
      await complete()
    })
  }

  async function transfer(_payload, attempt, transact) {
    note('begun', attempt)
    pass('begun')
    await transact(async ({ write, complete }) => {
      pass('opened')
      await write('insert into effect (job_id, token) values ($1, $2)', [
        attempt.job,
        attempt.token,
      ])
      pass('written')
      note('done', attempt)
      await complete()
      pass('completed')
      setImmediate(() => pass('committing'))
    })
    pass('committed')
  }

  return { note, handlers: { quick, slow, flaky, hopeless, stubborn, transfer } }
}

/** A process that is doomed dies when it passes a point for the n-th time, or after a time wherever it is. */
function gate(doom) {
  if (doom === undefined) return () => {}
  const die = () => process.kill(process.pid, 'SIGKILL')
  if (doom.point === 'anywhere') setTimeout(die, doom.visits)
  let left = doom.visits
  return (point) => {
    if (point === doom.point && --left === 0) die()
  }
}
