import { connect, type Database } from '../database/database.ts'
import * as engine from '../database/engine.ts'
import { Listener } from '../database/listener.ts'
import type { JobDefinition } from '../definitions/define-job.ts'
import { FencepostError } from '../errors.ts'
import { createLogger, type Logger } from '../telemetry/logger.ts'
import type { Attempt } from './attempt.ts'
import { checkDefinitions } from './check-definitions.ts'
import { Load } from './load.ts'
import {
  type StopOptions,
  settingsOf,
  stopDeadlineOf,
  type WorkerOptions,
  type WorkerSettings,
} from './options.ts'
import { Outbox } from './outbox.ts'
import { createPulse, type Pulse } from './pulse.ts'
import type { HeldDirective, PulseNews } from './pulse-loop.ts'
import { Pump } from './pump.ts'
import { Registration } from './registration.ts'
import { logReport, type ReportedOutcome, reportOf } from './report.ts'
import { Runner } from './runner.ts'
import { Settler } from './settler.ts'
import { Sleeper } from './sleeper.ts'
import { within } from './within.ts'

/** How a worker reaches its database. */
export interface WorkerConnection {
  /** For everything but the rounds of the worker, which have connections of their own. */
  readonly db: Database
  /** Undefined where the application holds the database: then there are no notifications and no thread of its own. */
  readonly url: string | undefined
  readonly prepare: boolean | undefined
}

/** Where a worker is in its life. */
export type WorkerState = 'new' | 'starting' | 'running' | 'stopping' | 'stopped'

/** What a worker has counted since it was made. */
export type WorkerCounters = Readonly<Record<'claimed' | ReportedOutcome, number>>

/** How the slots of a worker are used. */
export interface WorkerSlots {
  readonly total: number
  readonly running: number
  /** Claimed, and about to start. */
  readonly queued: number
}

/** Handlers of a stopping worker that were told to stop have so long to do it, in ms. */
const STOPPING = 1_000
/** How long the cancellation of a job that is not here yet is kept, in ms. */
const EARLY = 5_000
/** How long a stopping worker tries to send what it has, in ms. */
const FLUSHING = 5_000

/**
 * Runs the handlers of some types in this process. Made by {@link Fencepost.worker}.
 *
 * It stays alive through outages of the database: handlers go on, their results are kept and sent
 * again. When the engine takes it for lost, its handlers are told, and it registers anew.
 */
export class Worker implements AsyncDisposable {
  /** Resolves when it has stopped, for whatever reason. */
  readonly stopped: Promise<void>
  readonly #settings: WorkerSettings
  readonly #db: Database
  readonly #rounds: Database
  readonly #log: Logger
  readonly #registration: Registration
  readonly #outbox = new Outbox()
  readonly #load = new Load()
  readonly #pulse: Pulse
  readonly #runner: Runner
  readonly #pump: Pump
  readonly #listener: Listener | undefined
  readonly #sleeper: Sleeper
  readonly #counters: Record<keyof WorkerCounters, number> = {
    claimed: 0,
    completed: 0,
    failed: 0,
    cancelled: 0,
    timed_out: 0,
    suspended: 0,
    released: 0,
    lost: 0,
  }
  readonly #cancelledEarly = new Set<number>()
  #state: WorkerState = 'new'
  #incarnation: number | undefined
  #starting: Promise<void> | undefined
  #stopping: Promise<void> | undefined
  #resolveStopped: () => void = () => {}

  /** @throws FencepostError JE003 for options or definitions that make no sense */
  constructor(
    definitions: readonly JobDefinition[],
    options: WorkerOptions,
    { db, url, prepare }: WorkerConnection,
  ) {
    const settings = settingsOf(options)
    const byType = checkDefinitions(definitions)
    const types = [...byType.keys()]
    this.stopped = new Promise((resolve) => {
      this.#resolveStopped = resolve
    })
    this.#settings = settings
    this.#db = db
    this.#rounds =
      url === undefined
        ? db
        : connect({
            url,
            max: 2,
            applicationName: 'fencepost worker',
            ...(prepare === undefined ? {} : { prepare }),
          })
    this.#log = options.logger ?? createLogger()
    const log = this.#log
    this.#registration = new Registration({ db, log, settings, definitions })
    this.#pulse = createPulse({
      ...settings,
      url,
      prepare,
      db,
      types,
      held: () => this.#held(),
      tell: (news) => this.#hear(news),
      restarted: (error) =>
        log.error({ error }, 'the thread of the heartbeats died; another one runs'),
    })
    this.#runner = new Runner({
      ...settings,
      db,
      log,
      definitions: byType,
      watch: this.#pulse.watch,
      ended: (attempt) => this.#ended(attempt),
      freed: () => this.#pump.poke(),
      lost: (attempt) => this.#report(attempt, 'lost'),
    })
    const settler = new Settler({
      db,
      log,
      runner: this.#runner,
      outbox: this.#outbox,
      settled: (attempt, outcome, verdict) => this.#report(attempt, outcome, verdict),
    })
    this.#pump = new Pump({
      ...settings,
      db: this.#rounds,
      log,
      types,
      runner: this.#runner,
      outbox: this.#outbox,
      settler,
      load: this.#load,
      claimed: (count) => {
        this.#counters.claimed += count
        this.#sleeper.found()
        if (this.#cancelledEarly.size > 0) this.#cancelEarly()
      },
      incarnationLost: (incarnation) => this.#incarnationLost(incarnation),
      drain: () => this.#drain(),
      idle: (isIdle) => this.#sleeper.setIdle(isIdle),
    })
    this.#listener = url === undefined ? undefined : new Listener({ url, listen: settings.listen })
    this.#listener?.on('cancel', (incarnation, jobs) => this.#cancel(incarnation, jobs))
    this.#sleeper = new Sleeper({
      db,
      log,
      types,
      poll: settings.poll,
      load: this.#load,
      listener: this.#listener,
      look: () => this.#pump.look(),
      wake: () => this.#pump.wake(),
    })
  }

  /** Where it is in its life. */
  get state(): WorkerState {
    return this.#state
  }

  /** Its number with the engine, new each time it registers; undefined while it is not registered. */
  get id(): number | undefined {
    return this.#incarnation
  }

  /** What it has counted since it was made. */
  get counters(): WorkerCounters {
    return { ...this.#counters }
  }

  get slots(): WorkerSlots {
    const { running, queued } = this.#runner
    return { total: this.#settings.concurrency, running, queued }
  }

  /**
   * Declares its types, registers, and begins to work. Waits for a database that does not answer.
   *
   * @throws FencepostError JE003 for settings that the engine refuses, JE011 when the
   *   schema is too old or too new, JE004 when it was stopped before
   */
  start(): Promise<void> {
    this.#starting ??= this.#start()
    return this.#starting
  }

  /**
   * Stops: claims nothing more, gives unstarted jobs back, waits for handlers. Those that still run
   * after the deadline are told to stop; what they leave undone goes to others at once.
   */
  stop(options: StopOptions = {}): Promise<void> {
    const deadline = stopDeadlineOf(options, this.#settings.stopDeadline)
    this.#stopping ??= this.#stop(deadline)
    return this.#stopping
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #start(): Promise<void> {
    if (this.#stopping !== undefined) {
      throw new FencepostError('JE004', 'this worker was stopped', {
        detail: `its state is ${this.#state}`,
        hint: 'Make another one with Fencepost.worker().',
      })
    }
    this.#state = 'starting'
    try {
      await this.#registration.declare()
      this.#pulse.start()
      this.#listener?.start()
      this.#sleeper.start()
      await this.#register()
    } catch (error) {
      void this.stop({ deadline: 0 })
      throw error
    }
    if (this.#state === 'starting') this.#state = 'running'
  }

  async #register(): Promise<void> {
    const incarnation = await this.#registration.register()
    if (incarnation === undefined) return
    this.#incarnation = incarnation
    this.#pulse.setIncarnation(incarnation)
    this.#pump.begin(incarnation)
  }

  async #registerAgain(): Promise<void> {
    try {
      await this.#register()
    } catch (error) {
      this.#log.error({ error }, 'the engine refuses the worker')
      void this.stop()
    }
  }

  #incarnationLost(incarnation: number): void {
    if (incarnation !== this.#incarnation) return
    this.#incarnation = undefined
    this.#pump.suspend()
    this.#pulse.setIncarnation(undefined)
    const held = [...this.#runner.held]
    this.#log.warn(
      { worker: this.#settings.name, worker_id: incarnation, jobs: held.length },
      'the worker was taken for lost: its handlers are told to stop, and it registers again',
    )
    for (const attempt of held) this.#runner.lose(attempt)
    this.#outbox.drop((attempt) => attempt.lost)
    if (this.#stopping === undefined) void this.#registerAgain()
  }

  #ended(attempt: Attempt): void {
    this.#load.count()
    if (attempt.ending?.kind === 'departed') {
      this.#runner.settle(attempt)
      this.#report(attempt, attempt.ending.outcome)
    } else if (!attempt.lost) {
      this.#outbox.add(attempt)
    }
    this.#pump.poke()
  }

  #report(attempt: Attempt, outcome: ReportedOutcome, verdict?: engine.Verdict): void {
    this.#counters[outcome]++
    const report = reportOf(attempt, this.#settings.name, outcome, verdict)
    logReport(this.#log, report)
    try {
      this.#settings.onAttempt(report)
    } catch (error) {
      this.#log.error({ error }, 'onAttempt threw')
    }
  }

  #held(): { ids: number[]; tokens: number[] } {
    const ids: number[] = []
    const tokens: number[] = []
    for (const { job } of this.#runner.held) {
      ids.push(job.job_id)
      tokens.push(job.token)
    }
    return { ids, tokens }
  }

  #hear(news: PulseNews): void {
    switch (news.kind) {
      case 'directives':
        for (const each of news.directives) this.#obey(each)
        break
      case 'lost':
        this.#incarnationLost(news.incarnation)
        break
      case 'drain':
        this.#drain()
        break
      case 'trouble':
        this.#log.error({ worker: this.#settings.name }, `housekeeping fails: ${news.message}`)
        break
      case 'blocked':
        this.#log.warn(
          { worker: this.#settings.name, types: news.types, blocked_ms: Math.round(news.ms) },
          `the event loop was blocked for ${Math.round(news.ms)} ms, probably by ${news.types.join(' or ')}`,
        )
    }
  }

  #obey({ job, token, directive }: HeldDirective): void {
    const attempt = this.#runner.find(job)
    // Of an attempt that has ended, the answer to its result will tell.
    if (attempt?.job.token !== token || attempt.ending !== undefined) return
    if (directive === 'lost') this.#runner.lose(attempt)
    else this.#runner.abort(attempt, directive === 'cancel' ? 'cancelled' : 'timed_out')
  }

  #cancel(incarnation: number, jobs: readonly number[]): void {
    if (incarnation !== this.#incarnation) return
    for (const job of jobs) {
      const attempt = this.#runner.find(job)
      if (attempt !== undefined) this.#runner.abort(attempt, 'cancelled')
      else this.#cancelledEarly.add(job)
    }
    // Those that are not on their way to us have ended.
    setTimeout(() => this.#cancelledEarly.clear(), EARLY).unref()
  }

  /** Jobs whose cancellation arrived before they did. */
  #cancelEarly(): void {
    for (const job of this.#cancelledEarly) {
      const attempt = this.#runner.find(job)
      if (attempt === undefined) continue
      this.#cancelledEarly.delete(job)
      this.#runner.abort(attempt, 'cancelled')
    }
  }

  #drain(): void {
    if (this.#stopping !== undefined) return
    this.#log.info({ worker: this.#settings.name }, 'an operator drains this worker: it stops')
    void this.stop()
  }

  async #stop(deadline: number): Promise<void> {
    const until = performance.now() + deadline
    const left = () => Math.max(0, until - performance.now())
    this.#state = 'stopping'
    this.#registration.close()
    void this.#sleeper.close()
    this.#runner.close()
    await within(this.#pump.stopClaiming(), left())
    await this.#giveBack()
    await within(this.#runner.whenIdle(), left())
    await this.#endHandlers()
    const isFlushed = await within(this.#pump.whenFlushed(), FLUSHING)
    if (this.#outbox.size > 0) {
      const { size: jobs } = this.#outbox
      this.#log.error({ jobs }, 'results could not be sent; these jobs run again')
    }
    this.#pump.close()
    await Promise.all([this.#pulse.stop(), this.#listener?.close(), this.#sleeper.close()])
    await this.#sayGoodbye(isFlushed ? FLUSHING : STOPPING)
    if (this.#rounds !== this.#db) await this.#rounds.close()
    this.#state = 'stopped'
    this.#resolveStopped()
  }

  /** What has not started goes to others, and does not count. */
  async #giveBack(): Promise<void> {
    const unstarted = this.#runner.takeQueue()
    if (unstarted.length === 0) return
    const ids = unstarted.map(({ job }) => job.job_id)
    const tokens = unstarted.map(({ job }) => job.token)
    try {
      await engine.releaseMany(this.#db, ids, tokens, { timeout: FLUSHING })
      for (const attempt of unstarted) this.#report(attempt, 'released')
    } catch (error) {
      this.#log.warn({ error, jobs: ids.length }, 'unstarted jobs could not be given back')
    }
  }

  /** The deadline has passed: who still runs is told to stop, and who does not is left behind. */
  async #endHandlers(): Promise<void> {
    if (this.#runner.running === 0) return
    for (const attempt of this.#runner.held) this.#runner.abort(attempt, 'stopping')
    await within(this.#runner.whenIdle(), STOPPING)
    for (const attempt of [...this.#runner.held]) {
      if (attempt.ending === undefined) attempt.giveUp('stopping')
    }
  }

  async #sayGoodbye(timeout: number): Promise<void> {
    const incarnation = this.#incarnation
    if (incarnation === undefined) return
    await engine
      .stopWorker(this.#db, incarnation, { timeout })
      .catch((error) => this.#log.warn({ error }, 'the worker could not say goodbye'))
  }
}
