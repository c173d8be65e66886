import fc from 'fast-check'
import { expect } from 'vitest'
import type { Database } from '../../src/database/database.ts'
import { moveClock } from '../support/clock.ts'
import * as engine from '../support/engine.ts'
import { expectSound, publish, type Run, settleDue, start, typeOf } from '../support/runs.ts'
import { one, refused } from '../support/sql.ts'
import { type Kind, type Policy, RunModel, type TaskPlan, type TaskState } from './model.ts'

export interface Model {
  /** Minutes since the beginning. */
  now: number
  readonly runs: RunModel[]
}
export interface Real {
  readonly db: Database
  readonly runs: Run[]
}

type Deed = (model: Model, real: Real) => Promise<void> | undefined

/** Something done in both worlds; after it both say the same, and nothing is broken. */
class Command implements fc.AsyncCommand<Model, Real> {
  readonly #name: string
  readonly #deed: Deed

  /** The deed is undefined where there is nothing for it to do. */
  constructor(name: string, deed: Deed) {
    this.#name = name
    this.#deed = deed
  }

  check(): boolean {
    return true
  }

  async run(model: Model, real: Real): Promise<void> {
    const deed = this.#deed(model, real)
    if (deed === undefined) return
    await deed
    for (const [index, run] of real.runs.entries()) {
      const expected = model.runs[index] as RunModel
      const tasks = expected.tasks.map((task) => [task.plan.name, task.status])
      expect(await run.statuses()).toEqual(Object.fromEntries(tasks))
      expect(await run.status()).toBe(expected.status())
    }
    await expectSound(real.db)
  }

  toString(): string {
    return this.#name
  }
}

/** A task in both worlds. */
interface Pick {
  readonly run: RunModel
  readonly task: TaskState
  readonly actual: Run
  readonly id: number
  readonly job: engine.Claimed
  readonly db: Database
  readonly now: number
}

/** A command for one of the tasks that suit. */
function onTask(
  name: string,
  suits: (run: RunModel, task: TaskState) => boolean,
  deed: (pick: Pick) => Promise<void>,
): fc.Arbitrary<Command> {
  async function perform(
    run: RunModel,
    task: TaskState,
    actual: Run,
    model: Model,
    { db }: Real,
  ): Promise<void> {
    const { id, job_id } = await actual.task(task.plan.name)
    const job = {
      job_id: Number(job_id),
      token: task.token,
      type: '',
      attempt: 0,
      payload: null,
      priority: 5,
    }
    await deed({ run, task, actual, id, job, db, now: model.now })
  }
  return fc.nat(1000).map(
    (n) =>
      new Command(`${name}(${n})`, (model, real) => {
        const all = model.runs.flatMap((run, index) =>
          run.tasks.map((task) => [run, task, real.runs[index] as Run] as const),
        )
        const suitable = all.filter(([run, task]) => suits(run, task))
        const pick = suitable[n % Math.max(1, suitable.length)]
        return pick && perform(...pick, model, real)
      }),
  )
}

/** A command for one of the runs: the model says whether it is refused, and what it does. */
function onRun(
  call: string,
  args: readonly unknown[],
  isLegal: (run: RunModel) => boolean,
  follow: (run: RunModel, now: number) => void,
): fc.Arbitrary<Command> {
  return fc.nat(1000).map(
    (n) =>
      new Command(`${call}(${n})`, (model, real) => {
        const index = n % Math.max(1, model.runs.length)
        const [run, actual] = [model.runs[index], real.runs[index]]
        if (run === undefined || actual === undefined) return
        return either(isLegal(run), actual.call(call, ...args), () => follow(run, model.now))
      }),
  )
}

/** The call goes well and the model follows, or it is refused. */
async function either(isLegal: boolean, call: Promise<unknown>, follow: () => void): Promise<void> {
  if (isLegal) {
    await call
    follow()
  } else {
    await refused(call, 'JE004')
  }
}

const plans: fc.Arbitrary<TaskPlan[]> = fc
  .array(
    fc.record({
      kind: fc.constantFrom<Kind>('job', 'job', 'job', 'job', 'approval', 'signal', 'timer'),
      after: fc.array(fc.nat(1000), { maxLength: 3 }),
      isOff: fc.constantFrom(false, false, false, false, true),
      goesOn: fc.constantFrom(false, false, true),
      onReject: fc.constantFrom<Policy>('fail', 'skip', 'continue'),
    }),
    { minLength: 2, maxLength: 7, size: 'max' },
  )
  .map((drawn) =>
    drawn.map((task, index) => ({
      ...task,
      name: `t${index}`,
      after: index === 0 ? [] : [...new Set(task.after.map((n) => `t${n % index}`))],
    })),
  )

function specOf({ kind, after, isOff, goesOn, onReject }: TaskPlan): Record<string, unknown> {
  return {
    kind,
    after,
    ...(isOff ? { when: '$.input.on == true' } : {}),
    ...(goesOn ? { on_failure: 'continue' } : {}),
    ...(kind === 'approval' ? { expires_after: '1 hour', on_reject: onReject } : {}),
    ...(kind === 'timer' ? { delay: '1 hour' } : {}),
    ...(kind === 'signal' ? { signal: 's' } : {}),
  }
}

const begin = plans.map(
  (drawn) =>
    new Command(`start(${JSON.stringify(drawn)})`, (model, real) => {
      if (model.runs.length >= 3) return
      return (async () => {
        const tasks = drawn.map((task) => [task.name, specOf(task)])
        real.runs.push(await start(real.db, await publish(real.db, Object.fromEntries(tasks))))
        model.runs.push(new RunModel(drawn, model.now))
      })()
    }),
)

const pass = fc.constant(
  new Command('40 minutes pass', async (model, { db }) => {
    await moveClock(db, '40 min')
    await one(db, 'select fencepost_private.promote()')
    await settleDue(db)
    model.now += 40
    for (const run of model.runs) run.tick(model.now)
  }),
)

const claim = onTask(
  'claim',
  (run, task) => run.canClaim(task),
  async ({ run, task, actual }) => {
    task.token = (await actual.claim(task.plan.name)).token
    run.claim(task)
  },
)
const claimInVain = onTask(
  'claim in vain',
  (run, task) => !run.canClaim(task),
  async ({ task, actual, db }) => {
    expect(await engine.claim(db, typeOf(actual.workflow, task.plan.name))).toEqual([])
  },
)

const isRunning = (_: RunModel, task: TaskState) => task.status === 'running'
const complete = onTask('complete', isRunning, async ({ run, task, job, db, now }) => {
  await engine.complete(db, job)
  run.complete(task, now)
})
const fail = onTask('fail', isRunning, async ({ run, task, job, db, now }) => {
  expect(await engine.fail(db, job)).toBe(run.fail(task, false, now))
})
const bury = onTask('bury', isRunning, async ({ run, task, job, db, now }) => {
  await engine.bury(db, job)
  run.fail(task, true, now)
})
const release = onTask('release', isRunning, async ({ run, task, job, db, now }) => {
  await one(db, 'select fencepost.release($1, $2)', [job.job_id, job.token])
  run.release(task, now)
})

const hasJob = (_: RunModel, task: TaskState) => ['queued', 'running'].includes(task.status)
const cancelJob = onTask('cancel the job', hasJob, async ({ run, task, job, db, now }) => {
  await one(db, 'select fencepost.cancel($1)', [job.job_id])
  run.cancelJob(task, now)
})
const replay = onTask(
  'replay',
  (_, task) => task.status !== 'pending',
  ({ run, task, id, db, now }) =>
    either(run.canReplay(task), one(db, 'select fencepost.replay_task($1)', [id]), () =>
      run.replay(task, now),
    ),
)
const gate = onTask(
  'gate',
  () => true,
  ({ run, task, id, db }) =>
    either(run.canGate(task), one(db, 'select fencepost.request_approval($1)', [id]), () =>
      run.gate(task),
    ),
)

const isAsked = (_: RunModel, task: TaskState) =>
  task.hasGate || (task.plan.kind === 'approval' && task.status === 'waiting')
const decide = (verb: 'approve' | 'reject') =>
  onTask(verb, isAsked, async ({ run, task, actual, db, now }) => {
    await one(db, `select fencepost.${verb}($1)`, [await actual.approval(task.plan.name)])
    run.decide(task, verb === 'approve', now)
  })

const signal = onRun(
  'signal_run',
  ['s'],
  (run) => run.canSignal(),
  (run, now) => run.signal(now),
)
const pause = onRun(
  'pause_run',
  [],
  (run) => run.canPause(),
  (run) => run.pause(),
)
const resume = onRun(
  'resume_run',
  [],
  (run) => run.isPaused,
  (run, now) => run.resume(now),
)
const cancel = onRun(
  'cancel_run',
  [],
  (run) => run.status() !== 'completed',
  (run, now) => run.cancel(now),
)

/** The commands, each as often as it should be drawn. */
export const commands: fc.Arbitrary<Command>[] = (
  [
    [4, begin],
    [2, pass],
    [8, claim],
    [1, claimInVain],
    [6, complete],
    [3, fail],
    [3, bury],
    [1, release],
    [1, cancelJob],
    [4, replay],
    [2, gate],
    [4, decide('approve')],
    [2, decide('reject')],
    [3, signal],
    [2, pause],
    [3, resume],
    [1, cancel],
  ] as const
).flatMap(([weight, command]) => Array.from({ length: weight }, () => command))
