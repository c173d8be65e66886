import { connect, type Database } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import type { JobDefinition } from '../definitions/define-job.ts'
import { interval } from '../definitions/duration.ts'
import { FencepostError } from '../errors.ts'
import { anything, type Check, checkOptions, flag, textUpTo, wholeNumber } from '../options.ts'
import type { WorkerOptions } from '../worker/options.ts'
import { Worker } from '../worker/worker.ts'
import { type Camelized, camelized } from './camel.ts'
import {
  batchChecks,
  checkedPayload,
  type EnqueueOptions,
  enqueueChecks,
  type JobRequest,
  newJob,
  newJobs,
  on,
  type TransactionOption,
  typeOf,
} from './new-job.ts'
import { WorkflowClient } from './workflow-client.ts'

/** How an engine is reached: by a URL, or through a database that the application has. */
export interface FencepostOptions {
  /** `postgresql://user:password@host:port/database?sslmode=require`; several hosts with commas between. */
  readonly url?: string | undefined
  /**
   * A database made by `connect()`, which stays the application's: `close()` leaves it open. Workers
   * made with it have neither notifications nor heartbeats off the thread of their handlers.
   */
  readonly database?: Database | undefined
  /** The most connections that are open at a time. Default 10. */
  readonly max?: number | undefined
  /** False behind PgBouncer in transaction mode. Default true. */
  readonly prepare?: boolean | undefined
  /** How the sessions are called in pg_stat_activity. Default `fencepost`. */
  readonly applicationName?: string | undefined
}

const checks: Readonly<Record<keyof FencepostOptions, Check>> = {
  url: textUpTo(10_000),
  database: anything,
  max: wholeNumber(1, 10_000),
  prepare: flag,
  applicationName: textUpTo(63),
}

/** A job as it stands. */
export type Job = Camelized<engine.JobRow>
/** One attempt of a job. */
export type JobAttempt = Camelized<engine.AttemptRow>
/** Something that happened to a job. */
export type JobEvent = Camelized<engine.EventRow>
/** Why a job is not running. */
export type JobReason = engine.ReasonRow
/** How a type stands. */
export type TypeStats = Camelized<engine.StatsRow>
/** A worker process. */
export type WorkerInfo = Camelized<engine.WorkerRow>

/** What became of one job of a list. */
export interface EnqueuedJob {
  readonly id: number
  /** False when the idempotency key was already taken: the id is that of the job which has it. */
  readonly created: boolean
}

/** What narrows jobs or dead letters; the keys are those of `fencepost.list_jobs`. */
export type JobFilter = engine.JobFilter

/** What narrows a bulk operation. */
export interface MatchingOptions {
  /** Only count. Default false. */
  readonly dryRun?: boolean | undefined
  /** How many at most. Default 10,000. */
  readonly max?: number | undefined
}

/**
 * The engine as an application sees it: enqueues, asks, operates, and makes workers. Nothing is
 * connected before the first call. Every call settles, whatever happens to the server: see `connect`.
 *
 * Errors of the engine are {@link FencepostError}, by `code`.
 */
export class Fencepost extends WorkflowClient implements AsyncDisposable {
  readonly #db: Database
  readonly #options: FencepostOptions
  readonly #workers = new Set<Worker>()

  /** @throws FencepostError JE003 for options that make no sense */
  constructor(options: FencepostOptions) {
    super()
    checkOptions('Fencepost', options, checks)
    const { url, database, max, prepare, applicationName } = options
    if ((url === undefined) === (database === undefined)) {
      throw new FencepostError('JE003', 'Fencepost: give it either url or database', {
        detail: url === undefined ? 'received neither' : 'received both',
        hint: 'For example new Fencepost({ url: process.env.DATABASE_URL }).',
      })
    }
    this.#options = options
    this.#db =
      database ??
      connect({
        url: url as string,
        ...(max === undefined ? {} : { max }),
        ...(prepare === undefined ? {} : { prepare }),
        ...(applicationName === undefined ? {} : { applicationName }),
      })
  }

  /** The database, for statements of one's own. */
  override get database(): Database {
    return this.#db
  }

  /**
   * Enqueues a job and returns its id: the new one, or that of the job which has the idempotency key.
   *
   * @throws FencepostError JE003; JE005 (key used with another payload); JE006 (the payload is too
   *   large, or fails the schema or the check of its type); JE007 (the type takes no jobs now)
   */
  enqueue<Input>(
    job: JobDefinition<string, Input>,
    payload: NoInfer<Input>,
    options?: EnqueueOptions & TransactionOption,
  ): Promise<number>
  enqueue(
    type: string,
    payload?: unknown,
    options?: EnqueueOptions & TransactionOption,
  ): Promise<number>
  async enqueue(
    job: JobDefinition | string,
    payload?: unknown,
    options: EnqueueOptions & TransactionOption = {},
  ): Promise<number> {
    checkOptions('enqueue', options, enqueueChecks)
    return engine.enqueue(on(this.#db, options), await newJob(job, payload, options))
  }

  /**
   * Enqueues jobs of any types, each with options of its own: all or none. A row for each, in their order.
   *
   * @throws FencepostError as {@link enqueue}; the message names the place in the list, from 1
   */
  async enqueueMany(
    jobs: readonly JobRequest[],
    options: TransactionOption = {},
  ): Promise<EnqueuedJob[]> {
    checkOptions('enqueueMany', options, { tx: anything })
    const rows = await engine.enqueueMany(on(this.#db, options), await newJobs(jobs))
    return rows.map(({ job_id: id, created }) => ({ id, created }))
  }

  /**
   * Enqueues a job of one type for each payload, all or none: the fastest way. Returns their ids in order.
   *
   * @throws FencepostError JE003, JE006, JE007
   */
  enqueueBatch<Input>(
    job: JobDefinition<string, Input>,
    payloads: readonly NoInfer<Input>[],
    options?: Pick<EnqueueOptions, 'priority' | 'delay' | 'tenant'> & TransactionOption,
  ): Promise<number[]>
  enqueueBatch(
    type: string,
    payloads: readonly unknown[],
    options?: Pick<EnqueueOptions, 'priority' | 'delay' | 'tenant'> & TransactionOption,
  ): Promise<number[]>
  async enqueueBatch(
    job: JobDefinition | string,
    payloads: readonly unknown[],
    options: Pick<EnqueueOptions, 'priority' | 'delay' | 'tenant'> & TransactionOption = {},
  ): Promise<number[]> {
    checkOptions('enqueueBatch', options, batchChecks)
    const checked: unknown[] = []
    for (const payload of payloads) checked.push(await checkedPayload(job, payload))
    const { priority, delay, tenant } = options
    return engine.enqueueBatch(on(this.#db, options), typeOf(job), checked, {
      priority,
      delay: delay === undefined ? undefined : interval(delay),
      tenant,
    })
  }

  /** A job as it stands; undefined when there is none of this id. */
  async job(id: number): Promise<Job | undefined> {
    const row = await engine.getJob(this.#db, id)
    return row && camelized(row)
  }

  /**
   * Jobs that match, newest first. The list ends early (an entry with `cut`) when too much would have
   * to be looked at: go on after that entry's id.
   *
   * @throws FencepostError JE003 for a filter that is not known
   */
  async jobs(
    filter: JobFilter = {},
    options: { readonly after?: number; readonly max?: number } = {},
  ): Promise<Camelized<engine.ListedJob>[]> {
    return (await engine.listJobs(this.#db, filter, options)).map(camelized)
  }

  /** The attempts of a job, newest first. */
  async attempts(id: number): Promise<JobAttempt[]> {
    return (await engine.attempts(this.#db, id)).map(camelized)
  }

  /** What happened to a job, newest first. */
  async events(
    id: number,
    options: { readonly limit?: number; readonly offset?: number } = {},
  ): Promise<JobEvent[]> {
    return (await engine.events(this.#db, id, options)).map(camelized)
  }

  /**
   * Why a job is not running now, or where it is, and what would change that.
   *
   * @throws FencepostError JE002
   */
  explain(id: number): Promise<JobReason[]> {
    return engine.explainJob(this.#db, id)
  }

  /**
   * Cancels a job: at once when it waits; a running one is asked to stop, and its handler's signal fires.
   *
   * @throws FencepostError JE002; JE004 when it has ended or is a dead letter
   */
  async cancel(
    id: number,
    reason?: string,
    options: TransactionOption = {},
  ): Promise<'cancelled' | 'cancel_requested'> {
    return engine.cancel(on(this.#db, options), id, reason)
  }

  /**
   * Returns a dead letter to work, with its attempts reset. Its history stays.
   *
   * @throws FencepostError JE002; JE004 when it is no dead letter
   */
  async replay(id: number, options: TransactionOption = {}): Promise<void> {
    return engine.replay(on(this.#db, options), id)
  }

  /**
   * Returns all dead letters that match to work, or counts them. How many.
   *
   * @throws FencepostError JE003
   */
  replayMatching(
    filter: JobFilter,
    { dryRun = false, max }: MatchingOptions = {},
  ): Promise<number> {
    return engine.replayMatching(this.#db, filter, { dry_run: dryRun, max })
  }

  /**
   * Gives a dead letter up for good.
   *
   * @throws FencepostError JE002; JE004 when it is no dead letter
   */
  async discard(id: number, reason?: string, options: TransactionOption = {}): Promise<void> {
    return engine.discard(on(this.#db, options), id, reason)
  }

  /**
   * Gives all dead letters that match up, or counts them. How many.
   *
   * @throws FencepostError JE003
   */
  discardMatching(
    filter: JobFilter,
    { dryRun = false, max, reason }: MatchingOptions & { readonly reason?: string } = {},
  ): Promise<number> {
    return engine.discardMatching(this.#db, filter, { dry_run: dryRun, max, reason })
  }

  /**
   * Gives a waiting job another priority, at the end of its new line.
   *
   * @throws FencepostError JE002, JE003; JE004 when it runs or has ended
   */
  async reprioritize(id: number, priority: number, options: TransactionOption = {}): Promise<void> {
    return engine.reprioritize(on(this.#db, options), id, priority)
  }

  /**
   * Brings a suspended job back to work: `ctx.waitFor` returns the data. It is not kept for a job that does not
   * wait yet: whoever may be earlier than the handler tries again after JE004.
   *
   * @throws FencepostError JE002; JE004 when it is not suspended
   */
  async resume(id: number, data?: unknown, options: TransactionOption = {}): Promise<void> {
    return engine.resume(on(this.#db, options), id, data)
  }

  /**
   * Depths, ages, totals and rates of each type, or of one.
   *
   * @throws FencepostError JE002 for a type that does not exist
   */
  async stats(type?: string): Promise<TypeStats[]> {
    return (await engine.stats(this.#db, type)).map(camelized)
  }

  /** Worker processes, newest first. */
  async workers(): Promise<WorkerInfo[]> {
    return (await engine.workers(this.#db)).map(camelized)
  }

  /**
   * Makes a worker that runs the handlers of these definitions in this process. It begins with `start()`.
   *
   * @throws FencepostError JE003 for options or definitions that make no sense
   */
  worker(definitions: readonly JobDefinition[], options: WorkerOptions = {}): Worker {
    const { url, prepare } = this.#options
    const worker = new Worker(definitions, options, { db: this.#db, url, prepare })
    this.#workers.add(worker)
    void worker.stopped.then(() => this.#workers.delete(worker))
    return worker
  }

  /** Stops its workers and consumers, lets calls under way finish, and ends all connections that are its own. */
  async close(): Promise<void> {
    await Promise.all([this.endReading(), ...[...this.#workers].map((worker) => worker.stop())])
    if (this.#options.database === undefined) await this.#db.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
