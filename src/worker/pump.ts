import { Backoff } from '../database/backoff.ts'
import { type Database, isConnectionError, QueryTimeoutError } from '../database/database.ts'
import type { AttemptDirective, ExchangeDirective, RunDirective } from '../database/engine.ts'
import * as engine from '../database/engine.ts'
import { FencepostError } from '../errors.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Attempt } from './attempt.ts'
import type { Load } from './load.ts'
import { type Outbox, settlements } from './outbox.ts'
import { isRefusal } from './refusals.ts'
import type { Runner } from './runner.ts'
import { keyOf, type Settler } from './settler.ts'
import { Waiters } from './waiters.ts'

/** What a pump moves jobs and results between, and whom it tells. */
export interface PumpOptions {
  readonly db: Database
  readonly log: Logger
  readonly types: readonly string[]
  readonly runner: Runner
  readonly outbox: Outbox
  readonly settler: Settler
  readonly load: Load
  readonly concurrency: number
  readonly prefetch: number
  readonly flushDelay: number
  readonly claimed: (count: number) => void
  /** The engine does not know this incarnation any more. */
  readonly incarnationLost: (incarnation: number) => void
  /** An operator asks the worker to end. */
  readonly drain: () => void
  /** It became so, or is no more, that there are free slots and no work. */
  readonly idle: (isIdle: boolean) => void
}

/** Rounds under way at a time: while one is with the database, the results of another are made. */
const LANES = 2
/** How long a result rests whose workflow run somebody else holds, in ms. */
const REST = 25
/** The most that one round claims or settles. */
const MOST = 1_000

/**
 * Moves work: each round sends the results there are and claims what there is room for, in one
 * transaction. Results that no answer came for are kept and sent again; the engine refuses those that
 * it had accepted.
 */
export class Pump {
  readonly #options: PumpOptions
  readonly #backoff = new Backoff()
  #incarnation: number | undefined
  #inFlight = 0
  /** One of those waits until a transaction of a handler has ended. */
  #isWaiting = false
  /** Jobs asked for by rounds under way. */
  #asked = 0
  /** The last look found less than was asked for, and nothing has changed since. */
  #dry = false
  #wakes = 0
  #claiming = true
  #paused = false
  #failing = false
  /** A claim was sent and no answer came: there may be leases that nobody here knows of. */
  #unsure = false
  #scheduled = false
  #isIdle = false
  #closed = false
  #flush: NodeJS.Timeout | undefined
  #rest: NodeJS.Timeout | undefined
  readonly #lookers = new Waiters<boolean>()
  readonly #flushers = new Waiters()
  readonly #landers = new Waiters()

  constructor(options: PumpOptions) {
    this.#options = options
  }

  /** Goes on under a newly registered incarnation. */
  begin(incarnation: number): void {
    this.#incarnation = incarnation
    this.#unsure = false
    this.wake()
  }

  /** Stops until {@link begin}: the incarnation is lost. */
  suspend(): void {
    this.#incarnation = undefined
    this.#tick()
  }

  /** Something changed: a result more, a slot free. */
  poke(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#tick()
    })
  }

  /** There may be new work. */
  wake(): void {
    this.#wakes++
    this.#dry = false
    this.poke()
  }

  /** Looks for work now; true when some was found, or none can be taken. */
  look(): Promise<boolean> {
    this.poke()
    return this.#lookers.wait()
  }

  /** Claims nothing more; results still go out. Resolves when no claim is under way. */
  stopClaiming(): Promise<void> {
    this.#claiming = false
    this.poke()
    return this.#landers.wait()
  }

  /** Resolves when there is nothing left to send, and nothing under way. */
  whenFlushed(): Promise<void> {
    this.poke()
    return this.#flushers.wait()
  }

  /** Sends nothing more. */
  close(): void {
    this.#closed = true
    clearTimeout(this.#flush)
    clearTimeout(this.#rest)
    this.#backoff.stop()
    this.#tick()
  }

  #tick(): void {
    clearTimeout(this.#flush)
    if (!this.#closed && !this.#paused && this.#incarnation !== undefined) {
      if (!this.#unsure) this.#startRounds()
      else if (this.#swift === 0) void this.#giveBackUnknown(this.#incarnation)
    }
    this.#announce()
  }

  /** Rounds under way that nothing holds up. */
  get #swift(): number {
    return this.#inFlight - (this.#isWaiting ? 1 : 0)
  }

  #startRounds(): void {
    while (this.#inFlight < LANES) {
      const round = this.#nextRound()
      if (round === undefined) return
      void this.#exchange(round)
    }
  }

  /** What the next round does; undefined when there is nothing to do yet. */
  #nextRound(): Round | undefined {
    const { outbox, runner, concurrency, flushDelay } = this.#options
    // One at a time: all else goes on beside it.
    const locked = this.#isWaiting ? undefined : outbox.takeLocked()
    if (locked !== undefined) return { results: [locked], max: 0, waits: true }
    const { room, share } = this.#capacity()
    const max = Math.max(0, Math.min(room, share, MOST))
    const single = this.#swift === 0
    const hungry = runner.queued === 0 && runner.running + this.#asked < concurrency
    const wanted = this.#lookers.any || (!this.#dry && ((single && hungry) || max * 2 >= share))
    const claims = max > 0 && wanted
    if (outbox.ready === 0 && !claims) return undefined

    const waited = performance.now() - outbox.oldestAt
    const nothingElse = single && runner.running + runner.queued === 0
    const sends = outbox.ready >= MOST || waited >= flushDelay || nothingElse || !this.#claiming
    if (!claims && !sends) {
      this.#flush = setTimeout(() => this.#tick(), Math.max(1, flushDelay - waited))
      return undefined
    }
    const results = outbox.take(MOST)
    // One that travels alone may be refused, and what was claimed with it would be too.
    return { results, max: results[0]?.alone ? 0 : max, waits: false }
  }

  /** How many jobs there is room for, and how many of them one round takes. */
  #capacity(): { room: number; share: number } {
    const { runner, load, concurrency, prefetch } = this.#options
    const rate = load.perWindow()
    const capacity = concurrency + Math.min(prefetch, rate)
    const room = this.#claiming ? capacity - runner.running - runner.queued - this.#asked : 0
    return { room, share: rate >= concurrency ? Math.ceil(capacity / LANES) : capacity }
  }

  async #exchange(round: Round): Promise<void> {
    const { results, max, waits } = round
    const incarnation = this.#incarnation as number
    const { db, types } = this.#options
    const lookers = max > 0 ? this.#lookers.split() : undefined
    const wakes = this.#wakes
    let found = true
    this.#inFlight++
    this.#isWaiting ||= waits
    this.#asked += max
    try {
      const directives = await engine.exchange(db, {
        worker_id: incarnation,
        ...settlements(results),
        ...(max > 0 ? { types, max } : {}),
      })
      this.#answered()
      const claimed = this.#take(directives, results, incarnation)
      if (max > 0 && wakes === this.#wakes) this.#dry = claimed < max
      found = claimed > 0 || !this.#dry
    } catch (error) {
      this.#failed(error, round, incarnation)
    } finally {
      this.#inFlight--
      if (waits) this.#isWaiting = false
      this.#asked -= max
      lookers?.release(found)
      this.#options.runner.run()
      this.poke()
    }
  }

  /** Starts what was claimed and settles what was sent. How much was claimed. */
  #take(
    directives: readonly ExchangeDirective[],
    results: readonly Attempt[],
    incarnation: number,
  ): number {
    const { runner, settler } = this.#options
    const told = new Map<string, AttemptDirective>()
    const claimed: RunDirective[] = []
    for (const each of directives) {
      if (each.directive === 'run') claimed.push(each)
      else if (each.directive === 'drain') this.#options.drain()
      else told.set(keyOf(each), each)
    }
    // Results first: a job whose attempt has just failed may be among those that were claimed.
    settler.answered(results, told)
    if (this.#options.outbox.hasResting) this.#resumeLater()
    if (incarnation === this.#incarnation) {
      for (const job of claimed) runner.add(job, incarnation)
    }
    if (claimed.length > 0) this.#options.claimed(claimed.length)
    return claimed.length
  }

  /** Some results found their workflow run held by somebody else: they are sent again in a moment. */
  #resumeLater(): void {
    this.#rest ??= setTimeout(() => {
      this.#rest = undefined
      this.#options.outbox.resume()
      this.poke()
    }, REST)
  }

  #answered(): void {
    this.#backoff.reset()
    if (!this.#failing) return
    this.#failing = false
    this.#options.log.info({}, 'rounds go well again')
  }

  #failed(error: unknown, { results, max, waits }: Round, incarnation: number): void {
    const { settler, log } = this.#options
    if (error instanceof FencepostError && error.code === 'JE010') {
      settler.lost(results)
      if (incarnation === this.#incarnation) this.#options.incarnationLost(incarnation)
    } else if (results.length > 0 && isRefusal(error)) {
      settler.refused(error, results)
    } else if (waits && error instanceof QueryTimeoutError) {
      settler.unanswered(results, true)
      log.warn(
        { job: results[0]?.job.job_id },
        'no answer: it may be that the transaction in which the handler completed its job is still open',
      )
    } else {
      const isUnknown = isConnectionError(error) && error.outcome === 'unknown'
      this.#unsure ||= isUnknown && max > 0
      settler.unanswered(results, isUnknown)
      if (!this.#failing) log.warn({ error }, 'rounds fail; handlers go on, and results are kept')
      this.#failing = true
      void this.#pause()
    }
  }

  async #pause(): Promise<void> {
    if (this.#paused) return
    this.#paused = true
    await this.#backoff.wait()
    this.#paused = false
    this.poke()
  }

  /**
   * Gives back what was claimed by a round whose answer was lost: nobody here would ever run it, and
   * while this worker lives nobody else would for long.
   */
  async #giveBackUnknown(incarnation: number): Promise<void> {
    const { db, runner, log } = this.#options
    this.#paused = true
    try {
      const leases = await engine.leases(db, incarnation)
      const unknown = leases.filter(({ job_id, token }) => runner.find(job_id)?.job.token !== token)
      const ids = unknown.map(({ job_id }) => job_id)
      const tokens = unknown.map(({ token }) => token)
      const { length: jobs } = await engine.releaseMany(db, ids, tokens)
      if (jobs > 0) log.warn({ jobs }, 'jobs claimed as the connection was lost were given back')
      this.#unsure = false
    } catch {
      await this.#backoff.wait()
    }
    this.#paused = false
    this.poke()
  }

  /** Tells those who wait for it how things stand. */
  #announce(): void {
    const { outbox, idle } = this.#options
    // What a round under way has asked for is free until it answers: a look alone keeps nobody awake.
    const free = this.#capacity().room + (this.#claiming ? this.#asked : 0)
    if (this.#closed || free <= 0) this.#lookers.release(true)
    if (this.#closed || this.#asked === 0) this.#landers.release()
    if (this.#closed || (outbox.isEmpty && this.#inFlight === 0)) this.#flushers.release()
    const isRunning = !this.#closed && !this.#paused && this.#incarnation !== undefined
    const isIdle = isRunning && this.#dry && free > 0
    if (isIdle === this.#isIdle) return
    this.#isIdle = isIdle
    idle(isIdle)
  }
}

/** What one exchange sends, and how much it claims. */
interface Round {
  readonly results: readonly Attempt[]
  readonly max: number
  /** A transaction of a handler may hold it up. */
  readonly waits: boolean
}
