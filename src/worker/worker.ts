import { connect, type Database } from '../database/database.ts'
import { Listener } from '../database/listener.ts'
import type { JobDefinition } from '../definitions/define-job.ts'
import { FencepostError } from '../errors.ts'
import { createLogger, type Logger } from '../telemetry/logger.ts'
import type { Attempt } from './attempt.ts'
import { checkDefinitions } from './check-definitions.ts'
import { Directives } from './directives.ts'
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
import { Pump } from './pump.ts'
import { Registration } from './registration.ts'
import { Reporter, type WorkerCounters } from './report.ts'
import { Runner } from './runner.ts'
import { Settler } from './settler.ts'
import { Sleeper } from './sleeper.ts'
import { sayGoodbye, windDown } from './winding-down.ts'
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

/** How the slots of a worker are used. */
export interface WorkerSlots {
  readonly total: number
  readonly running: number
  /** Claimed, and about to start. */
  readonly queued: number
}

/** How long `stop()` waits for a registration under way, in ms. */
const STARTING = 5_000

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
  readonly #settler: Settler
  readonly #pump: Pump
  readonly #directives: Directives
  readonly #listener: Listener | undefined
  readonly #sleeper: Sleeper
  readonly #reporter: Reporter
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
    this.#reporter = new Reporter(settings.name, log, settings.onAttempt)
    this.#registration = new Registration({ db, log, settings, definitions })
    this.#pulse = createPulse({
      ...settings,
      url,
      prepare,
      db,
      types,
      held: () => this.#runner.heldKeys,
      tell: (news) => this.#directives.hear(news),
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
      lost: (attempt) => this.#reporter.ended(attempt, 'lost'),
    })
    this.#directives = new Directives({
      ...settings,
      log,
      runner: this.#runner,
      incarnationLost: (incarnation) => this.#incarnationLost(incarnation),
      drain: () => this.#drain(),
    })
    this.#settler = new Settler({
      db,
      log,
      runner: this.#runner,
      outbox: this.#outbox,
      settled: (attempt, outcome, verdict) => this.#reporter.ended(attempt, outcome, verdict),
      asked: () => this.#pump.poke(),
    })
    this.#pump = new Pump({
      ...settings,
      db: this.#rounds,
      log,
      types,
      runner: this.#runner,
      outbox: this.#outbox,
      settler: this.#settler,
      load: this.#load,
      claimed: (count) => {
        this.#reporter.counters.claimed += count
        this.#sleeper.found()
        this.#directives.arrived()
      },
      incarnationLost: (incarnation) => this.#incarnationLost(incarnation),
      drain: () => this.#drain(),
      idle: (isIdle) => this.#sleeper.setIdle(isIdle),
    })
    this.#listener = url === undefined ? undefined : new Listener({ url, listen: settings.listen })
    this.#listener?.on('cancel', (incarnation, jobs) => {
      if (incarnation === this.#incarnation) this.#directives.cancel(jobs)
    })
    // Whoever cancelled a job while nobody listened is heard now.
    this.#listener?.on('state', (state) => {
      if (state === 'ready') this.#pulse.beat()
    })
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
    return { ...this.#reporter.counters }
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
      if (this.#stopping !== undefined) return
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
      this.#reporter.ended(attempt, attempt.ending.outcome)
    } else if (attempt.completing) {
      void this.#settler.ask(attempt)
    } else if (!attempt.lost) {
      this.#outbox.add(attempt)
    }
    this.#pump.poke()
  }

  #drain(): void {
    if (this.#stopping !== undefined) return
    this.#log.info({ worker: this.#settings.name }, 'an operator drains this worker: it stops')
    void this.stop()
  }

  async #stop(deadline: number): Promise<void> {
    this.#state = 'stopping'
    this.#registration.close()
    // What it waits for was just called off; what is under way must not come after the end.
    if (this.#starting !== undefined)
      await within(
        this.#starting.catch(() => {}),
        STARTING,
      )
    const asleep = this.#sleeper.close()
    const parts = {
      db: this.#db,
      log: this.#log,
      runner: this.#runner,
      outbox: this.#outbox,
      pump: this.#pump,
      released: (attempt: Attempt) => this.#reporter.ended(attempt, 'released'),
    }
    const isFlushed = await windDown(parts, deadline)
    const closed = this.#rounds === this.#db ? undefined : this.#rounds.close()
    await Promise.all([closed, this.#pulse.stop(), this.#listener?.close(), asleep])
    if (this.#incarnation !== undefined) await sayGoodbye(parts, this.#incarnation, isFlushed)
    this.#state = 'stopped'
    this.#resolveStopped()
  }
}
