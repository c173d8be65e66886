import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { defineJob } from '../../src/index.ts'
import { Child } from '../support/child.ts'
import { moveClock } from '../support/clock.ts'
import { maintain, outcomes } from '../support/engine.ts'
import { expectSound, publish, type Run, start, typeOf } from '../support/runs.ts'
import { Session } from '../support/sessions.ts'
import { column, one } from '../support/sql.ts'
import { Stage } from '../worker/stage.ts'

// A worker process is killed at each point of each task's way. It stops there by itself and says so: no point is met
// by luck. The run must end with each task completed once, and its attempts must tell what happened.

let stage: Stage
const db = () => stage.database.db
beforeAll(async () => {
  stage = await Stage.open()
})
afterAll(() => stage[Symbol.asyncDispose]())
afterEach(() => expectSound(db()))

const TASKS = ['one', 'two', 'three', 'four', 'five']
const BY_HEIR = 'completed by heir'
const BY_HEIR_AFTER_ALL = 'lease_expired, completed by heir'
const BY_VICTIM = 'completed by victim'

/** A run of five tasks, one after the other. */
async function five(): Promise<Run> {
  const tasks = TASKS.map((task, place) => [task, { after: TASKS.slice(0, place).slice(-1) }])
  return start(db(), await publish(db(), Object.fromEntries(tasks)))
}

/** Both victims and their heirs have it: who registers under the name and slot of a dead one is its successor. */
const named = { name: 'mortal', slot: 1 }

/**
 * Starts a worker of these types in a process of its own and kills it at a point of the way of one of them, or after
 * what is done there with it.
 */
async function sacrifice(
  types: readonly string[],
  point: string,
  type: string,
  there: (victim: Child) => Promise<void> = async () => {},
): Promise<void> {
  const told = { url: stage.database.url, types, point, type, options: named }
  await using victim = new Child(path.join(import.meta.dirname, 'mortal.mjs'), told)
  await victim.says('reached')
  await there(victim)
  victim.kill('SIGKILL')
  await victim.exit()
}

/** Whoever was killed is found out. */
async function timePasses(): Promise<void> {
  for (const _ of ['suspected', 'lost']) {
    await moveClock(db(), '1 minute')
    await maintain(db())
  }
}

/** A worker of these types in this process. */
const heir = (types: readonly string[], options = {}) =>
  stage.work(
    types.map((type) => defineJob({ type, run: () => 'heir' })),
    options,
  )

/** Resolves when a worker of this process has completed a job of a type. */
const completed = (type: string) =>
  stage.log.find((line) => line.type === type && line.outcome === 'completed')

/** How the attempts of each task ended, and who completed it, by what it returned. */
async function fates(run: Run): Promise<string[]> {
  const told = TASKS.map(async (task) => {
    const { job_id: job, output } = await run.task(task)
    return `${(await outcomes(db(), Number(job))).join(', ')} by ${output}`
  })
  return Promise.all(told)
}

/** The run is complete, and each of its tasks was completed once, in order. */
async function expectComplete(run: Run): Promise<void> {
  expect(await run.status()).toBe('completed')
  const done = await column<string>(
    db(),
    `select t.name from fencepost_private.event e join fencepost.tasks t on t.id = e.task_id
     where e.run_id = $1 and e.kind = 'job.completed' order by e.id`,
    [run.id],
  )
  expect(done).toEqual(TASKS)
}

describe('of five workers, one a task, each is killed', () => {
  it.each([
    ['before claim', BY_HEIR],
    ['after claim', BY_HEIR_AFTER_ALL],
    ['mid-handler', BY_HEIR_AFTER_ALL],
    ['before completion', BY_HEIR_AFTER_ALL],
    ['after completion', BY_VICTIM],
  ])('%s: silent for its ttl it is lost, and another one goes on', async (point, fate) => {
    const run = await five()
    for (const task of TASKS) {
      const type = typeOf(run.workflow, task)
      await sacrifice([type], point, type)
      await timePasses()
      if (fate === BY_VICTIM) continue
      await using _ = await heir([type])
      await completed(type)
    }
    expect(await fates(run)).toEqual(TASKS.map(() => fate))
    await expectComplete(run)
  })
})

// The server goes on with what it was sent, although nobody will hear the answer.
describe('of five workers, one a task, each is killed while the server is at its', () => {
  it.each([
    ['claim', BY_HEIR_AFTER_ALL],
    ['completion', BY_VICTIM],
  ])('%s: that is done, and the rest goes on elsewhere', async (round, fate) => {
    await using server = await Session.open(stage.database.url)
    const sessions = (state: string) =>
      one<number>(
        db(),
        `select count(*)::int from pg_stat_activity
         where datname = current_database() and application_name = $1 and ${state}`,
        [named.name],
      )
    const run = await five()
    for (const task of TASKS) {
      const type = typeOf(run.workflow, task)
      await sacrifice([type], `before ${round}`, type, async (victim) => {
        await server.begin()
        await server.query('lock table fencepost_private.lease in share mode') // none is made or ended
        victim.tell('go on')
        await expect.poll(() => sessions(`wait_event_type = 'Lock'`)).toBeGreaterThan(0)
      })
      await server.commit()
      await expect.poll(() => sessions('true')).toBe(0)
      await timePasses()
      if (fate === BY_VICTIM) continue
      await using _ = await heir([type])
      await completed(type)
    }
    expect(await fates(run)).toEqual(TASKS.map(() => fate))
    await expectComplete(run)
  })
})

// A round of such a worker ends a task and claims the next: with one answer two tasks may lose it.
describe('one worker of all five tasks is killed at each', () => {
  it.each([
    ['after claim', BY_HEIR_AFTER_ALL, BY_HEIR],
    ['mid-handler', BY_HEIR_AFTER_ALL, BY_HEIR],
    ['before completion', BY_HEIR_AFTER_ALL, BY_HEIR],
    ['after completion', BY_VICTIM, BY_HEIR_AFTER_ALL],
  ])('%s: its successor goes on at once', async (point, fate, next) => {
    for (const [place, task] of TASKS.entries()) {
      const run = await five()
      const types = TASKS.map((each) => typeOf(run.workflow, each))
      await sacrifice(types, point, typeOf(run.workflow, task))
      await using _ = await heir(types, named)
      await moveClock(db(), '2 s') // housekeeping is due each second
      await maintain(db())
      if ((await run.status()) !== 'completed') await completed(typeOf(run.workflow, 'five'))
      expect(await fates(run)).toEqual(
        TASKS.map((_, n) =>
          n < place ? BY_VICTIM : n === place ? fate : n === place + 1 ? next : BY_HEIR,
        ),
      )
      await expectComplete(run)
    }
  })
})
