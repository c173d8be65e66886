import { once } from 'node:events'
import { ApplicationFailure, CancelledFailure } from '@temporalio/activity'
import { ActivityCancellationDetails } from '@temporalio/common'
import { MockActivityEnvironment } from '@temporalio/testing'
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { defineJob, Fencepost, PermanentError, silentLogger, type Worker } from '../../src/index.ts'
import { jobActivity } from '../../src/temporal/index.ts'
import { freshType } from '../support/engine.ts'
import { startProxy } from '../support/proxy.ts'
import { ownDatabase } from '../support/server.ts'

const database = ownDatabase()
let engine: Fencepost
let worker: Worker

const double = defineJob({
  type: 'number.double',
  payload: z.object({ n: z.number() }),
  run: ({ n }) => {
    if (n === 13) throw new PermanentError('13 is not doubled')
    return { doubled: 2 * n }
  },
})
/** Stops when it is told, unless it is stubborn. */
const patient = defineJob({
  type: 'job.patient',
  payload: z.object({ stubborn: z.boolean() }),
  run: async ({ stubborn }, { signal }) => {
    if (!signal.aborted) await once(signal, 'abort')
    if (!stubborn) signal.throwIfAborted()
    return 'done all the same'
  },
})
beforeAll(async () => {
  engine = new Fencepost({ url: database.url })
  worker = engine.worker([double, patient], { logger: silentLogger })
  await worker.start()
})
afterAll(async () => {
  await engine.close()
})

const quiet = () => {}
const silent = { log: quiet, trace: quiet, debug: quiet, info: quiet, warn: quiet, error: quiet }

let runs = 0
/** An attempt of an activity: the first of a new run of its workflow, unless said otherwise. */
function attempt(info: ConstructorParameters<typeof MockActivityEnvironment>[0] = {}) {
  const workflowExecution = { workflowId: 'billing', runId: `run-${++runs}` }
  return new MockActivityEnvironment(
    { workflowExecution, heartbeatTimeoutMs: 5_000, ...info },
    { logger: silent },
  )
}

/** The id of its job, as soon as a heartbeat tells it: it may beat before the job is there. */
async function jobOf(environment: MockActivityEnvironment): Promise<number> {
  for (;;) {
    const [details] = await once(environment, 'heartbeat')
    if (details !== undefined) return details.jobId
  }
}

async function failure(activity: Promise<unknown>): Promise<ApplicationFailure> {
  const error = await activity.then(
    (result) => new Error(`it gave ${result}`),
    (reason) => reason,
  )
  expect(error).toBeInstanceOf(ApplicationFailure)
  return error
}

const isRunning = (id: number) =>
  expect.poll(async () => (await engine.job(id))?.status).toBe('running')

describe('an activity that is a job', () => {
  it('gives back what the job returned; its heartbeats tell the id of the job', async () => {
    const environment = attempt({ activityId: '5' })
    const job = jobOf(environment)
    const activity = jobActivity(engine, double)
    expectTypeOf(activity).returns.resolves.toEqualTypeOf<{ doubled: number }>()
    expect(await environment.run(activity, { n: 21 })).toEqual({ doubled: 42 })
    expect(await engine.job(await job)).toMatchObject({
      type: 'number.double',
      status: 'completed',
      idempotencyKey: `billing/run-${runs}/5`,
    })
  })

  it('takes the name of a type, and options of the job', async () => {
    const activity = jobActivity<unknown, string>(engine, 'number.double', { tenant: 'acme' })
    const environment = attempt()
    const job = jobOf(environment)
    await environment.run(activity, { n: 1 }, { priority: 9 })
    expect(await engine.job(await job)).toMatchObject({ tenant: 'acme', priority: 9 })
  })

  it('has one job in all attempts, and another in the next run of the workflow', async () => {
    const activity = jobActivity(engine, freshType())
    const workflowExecution = { workflowId: 'billing', runId: 'the first' }
    const first = attempt({ workflowExecution })
    const lost = expect(first.run(activity, { n: 1 })).rejects.toThrow(CancelledFailure)
    const job = await jobOf(first)
    first.cancel('WORKER_SHUTDOWN', new ActivityCancellationDetails({ workerShutdown: true }))
    await lost
    expect((await engine.job(job))?.status).toBe('pending')

    const second = attempt({ workflowExecution, attempt: 2, heartbeatDetails: { jobId: job } })
    const ended = failure(second.run(activity, { n: 1 }))
    expect(await jobOf(second)).toBe(job)
    const other = attempt()
    const otherEnded = failure(other.run(activity, { n: 1 }))
    const otherJob = await jobOf(other)
    expect(otherJob).not.toBe(job)
    await engine.cancel(job)
    await engine.cancel(otherJob)
    expect(await ended).toMatchObject({ type: 'FencepostCancelled', nonRetryable: true })
    await otherEnded
  })

  it('heartbeats for as long as it waits', async () => {
    const environment = attempt({ heartbeatTimeoutMs: 90 })
    const ended = failure(environment.run(jobActivity(engine, freshType()), {}))
    const job = await jobOf(environment)
    for (let beat = 0; beat < 3; beat++) expect(await jobOf(environment)).toBe(job)
    await engine.cancel(job)
    await ended
  })

  it('does not heartbeat where it is local', async () => {
    const environment = attempt({ isLocal: true })
    const beats: unknown[] = []
    environment.on('heartbeat', (details) => beats.push(details))
    await environment.run(jobActivity(engine, double), { n: 1 })
    expect(beats).toEqual([])
  })

  it('waits through an outage of the database', async () => {
    await using proxy = await startProxy(database.url)
    await using far = new Fencepost({ url: proxy.url })
    const type = freshType()
    const environment = attempt()
    const result = environment.run(jobActivity(far, type), { n: 1 })
    const job = await jobOf(environment)
    proxy.reset()
    const [claimed] = await engine.database.query<{ token: number }>(
      'select token from fencepost.claim($1, $2)',
      ['worker', [type]],
    )
    await engine.database.query('select fencepost.complete($1, $2, $3)', [
      job,
      claimed?.token,
      '"done"',
    ])
    expect(await result).toBe('done')
  })
})

describe('an activity whose job has no result', () => {
  it('fails for good when it is a dead letter, with its error', async () => {
    const { message, ...rest } = await failure(
      attempt().run(jobActivity(engine, double), { n: 13 }),
    )
    expect(message).toMatch(/^job \d+ \(number.double\) is a dead letter: 13 is not doubled$/)
    expect(rest).toMatchObject({
      type: 'FencepostDeadLetter',
      nonRetryable: true,
      details: [{ jobId: expect.any(Number), error: '13 is not doubled', attempts: 1 }],
    })
  })

  it('fails for good when it was discarded', async () => {
    const workflowExecution = { workflowId: 'billing', runId: 'discarded' }
    const environment = attempt({ workflowExecution })
    const job = jobOf(environment)
    await failure(environment.run(jobActivity(engine, double), { n: 13 }))
    await engine.discard(await job)
    expect(
      await failure(attempt({ workflowExecution }).run(jobActivity(engine, double), { n: 13 })),
    ).toMatchObject({ type: 'FencepostDiscarded', nonRetryable: true })
  })

  it('fails for good when it is not kept any more', async () => {
    const environment = attempt()
    const ended = failure(environment.run(jobActivity(engine, freshType()), {}))
    const job = await jobOf(environment)
    await engine.database.query('delete from fencepost_private.ready where id = $1', [job])
    expect(await ended).toMatchObject({ type: 'FencepostJobGone', details: [{ jobId: job }] })
  })

  it('fails for good when its payload is refused, but tries again when its type takes no jobs', async () => {
    const wrong = attempt().run(jobActivity(engine, double), { n: 'x' } as never)
    expect(await failure(wrong)).toMatchObject({ type: 'JE006', nonRetryable: true })
    const type = freshType()
    await engine.database.query('select fencepost.configure_type($1, accept => false)', [type])
    const closed = attempt().run(jobActivity(engine, type), {})
    await expect(closed).rejects.toMatchObject({ code: 'JE007' })
  })
})

describe('an activity that is cancelled', () => {
  it('cancels a job that waits', async () => {
    const environment = attempt()
    const ended = expect(
      environment.run(jobActivity(engine, freshType()), {}),
    ).rejects.toBeInstanceOf(CancelledFailure)
    const job = await jobOf(environment)
    environment.cancel()
    await ended
    expect((await engine.job(job))?.status).toBe('cancelled')
  })

  it('ends when a job that runs has stopped', async () => {
    const environment = attempt()
    const ended = expect(
      environment.run(jobActivity(engine, patient), { stubborn: false }),
    ).rejects.toBeInstanceOf(CancelledFailure)
    const job = await jobOf(environment)
    await isRunning(job)
    environment.cancel()
    await ended
    expect((await engine.job(job))?.status).toBe('cancelled')
  })

  it('gives the result of a job that completed nevertheless', async () => {
    const environment = attempt()
    const job = jobOf(environment)
    const result = environment.run(jobActivity(engine, patient), { stubborn: true })
    await isRunning(await job)
    environment.cancel()
    expect(await result).toBe('done all the same')
  })

  it('leaves the job to the next attempt when it was only paused or timed out', async () => {
    for (const why of [{ paused: true }, { timedOut: true }, { reset: true }, { notFound: true }]) {
      const environment = attempt()
      const ended = expect(
        environment.run(jobActivity(engine, freshType()), {}),
      ).rejects.toBeInstanceOf(CancelledFailure)
      const job = await jobOf(environment)
      environment.cancel('CANCELLED', new ActivityCancellationDetails(why))
      await ended
      expect((await engine.job(job))?.status).toBe('pending')
    }
  })
})
