import type { EnqueueOptions, Job, Place, Worker } from './state.ts'

/** Settings of the types in a run: no luck in the waits, so that they can be foretold. */
export const TTL = 30
const backoff = (attempt: number) => Math.min(60, 10 * 2 ** (attempt - 1))

/**
 * The engine as its documentation tells it, without tables, locks or watermarks. Time is in seconds and stands still
 * during a command. A refusal is the code that the engine must raise.
 */
export class Model {
  now = 0
  readonly jobs = new Map<number, Job>()
  readonly #workers: Worker[] = []
  readonly #keys = new Map<string, { id: number; payload: number }>()
  readonly paused = new Set<string>()
  readonly limits = new Map<string, number>()
  #transaction = 0

  /** A command begins: whatever it puts into a line stands behind all that was there. */
  begin(): void {
    this.#transaction++
  }

  /** What a key gives: the job that has it, a refusal, or nothing yet. */
  keyed(type: string, key: string, payload: number): number | 'JE005' | undefined {
    const known = this.#keys.get(`${type} ${key}`)
    if (known === undefined) return undefined
    return known.payload === payload ? known.id : 'JE005'
  }

  enqueued(id: number, type: string, priority: number, options: EnqueueOptions): void {
    const { delay = 0, maxAttempts = 5, timeout, key, payload = 0 } = options
    this.jobs.set(id, {
      id,
      type,
      maxAttempts,
      timeout,
      priority,
      place: delay > 0 ? 'delayed' : 'ready',
      attempts: 0,
      token: 0,
      since: this.#transaction,
      wakeAt: delay > 0 ? this.now + delay : undefined,
      worker: undefined,
      startedAt: 0,
      seenAt: 0,
      deadline: undefined,
      isCancelRequested: false,
    })
    if (key !== undefined) this.#keys.set(`${type} ${key}`, { id, payload })
  }

  /** The ids that a claim must give, in order. */
  claim(type: string, name: string, max: number): number[] {
    let worker = this.present(name)
    if (worker === undefined) {
      worker = {
        name,
        status: 'active',
        heartbeatAt: this.now,
        suspectAt: undefined,
        returnedAt: 0,
      }
      this.#workers.push(worker)
    } else if (worker.heartbeatAt < this.now - 1) {
      this.#beat(worker)
    }
    this.#promote(this.now - 2)
    const taken = this.#take(type, worker, max)
    if (taken.length > 0 || max === 0 || !this.#promote(-1)) return taken
    return this.#take(type, worker, max)
  }

  #take(type: string, worker: Worker, max: number): number[] {
    if (this.paused.has(type)) return []
    const running = this.#at('lease').filter((job) => job.type === type).length
    const room = Math.max(0, (this.limits.get(type) ?? Infinity) - running)
    const line = this.#at('ready')
      .filter((job) => job.type === type)
      .sort((a, b) => b.priority - a.priority || a.since - b.since || a.id - b.id)
      .slice(0, Math.min(max, room))
    for (const job of line) {
      job.place = 'lease'
      job.attempts++
      job.token++
      job.worker = worker
      job.startedAt = this.now
      job.seenAt = 0
      job.isCancelRequested = false
      job.deadline = job.timeout === undefined ? undefined : this.now + job.timeout
    }
    return line.map((job) => job.id)
  }

  #promote(from: number): boolean {
    const due = this.#at('delayed').filter(
      (job) => Number(job.wakeAt) >= from && Number(job.wakeAt) <= this.now,
    )
    for (const job of due) this.#line(job)
    return due.length > 0
  }

  #line(job: Job): void {
    job.place = 'ready'
    job.since = this.#transaction
    job.wakeAt = undefined
    job.worker = undefined
  }

  #at(place: Place): Job[] {
    return [...this.jobs.values()].filter((job) => job.place === place)
  }

  /** The code with which a stale attempt is refused, if it is one. */
  stale(job: Job, token: number): 'JE001' | undefined {
    return job.place === 'lease' && job.token === token ? undefined : 'JE001'
  }

  complete(job: Job): void {
    this.#end(job, 'completed')
  }

  #end(job: Job, place: Place): void {
    job.place = place
    job.worker = undefined
    job.wakeAt = undefined
  }

  /** Ends an attempt badly; the verdict that the engine must give. */
  fail(
    job: Job,
    wait: number | undefined,
    isPermanent = false,
  ): 'retry' | 'dead_letter' | 'cancelled' {
    if (job.isCancelRequested) {
      this.#end(job, 'cancelled')
      return 'cancelled'
    }
    if (isPermanent || job.attempts >= job.maxAttempts) {
      this.#end(job, 'dead_letter')
      return 'dead_letter'
    }
    const pause = wait ?? backoff(job.attempts)
    this.#line(job)
    if (pause > 0) {
      job.place = 'delayed'
      job.wakeAt = this.now + pause
    }
    return 'retry'
  }

  release(job: Job): void {
    if (job.isCancelRequested) {
      this.#end(job, 'cancelled')
      return
    }
    job.attempts--
    this.#line(job)
  }

  suspend(job: Job, delay: number | undefined): 'JE004' | undefined {
    if (job.isCancelRequested) return 'JE004'
    job.attempts--
    job.place = 'suspended'
    job.worker = undefined
    job.wakeAt = delay === undefined ? undefined : this.now + delay
    return undefined
  }

  resume(job: Job): 'JE004' | undefined {
    if (job.place !== 'suspended') return 'JE004'
    this.#line(job)
    return undefined
  }

  cancel(job: Job): 'cancelled' | 'cancel_requested' | 'JE004' {
    if (job.place === 'lease') {
      job.isCancelRequested = true
      return 'cancel_requested'
    }
    if (!['ready', 'delayed', 'suspended'].includes(job.place)) return 'JE004'
    this.#end(job, 'cancelled')
    return 'cancelled'
  }

  replay(job: Job): 'JE004' | undefined {
    if (job.place !== 'dead_letter') return 'JE004'
    job.attempts = 0
    this.#line(job)
    return undefined
  }

  discard(job: Job): 'JE004' | undefined {
    if (job.place !== 'dead_letter') return 'JE004'
    this.#end(job, 'discarded')
    return undefined
  }

  reprioritize(job: Job, priority: number): 'JE004' | undefined {
    if (!['ready', 'delayed', 'suspended'].includes(job.place)) return 'JE004'
    if (job.place === 'ready' && job.priority !== priority) job.since = this.#transaction
    job.priority = priority
    return undefined
  }

  present(name: string): Worker | undefined {
    return this.#workers.findLast((worker) => worker.name === name && worker.status === 'active')
  }

  register(name: string): void {
    const old = this.present(name)
    if (old !== undefined) old.status = 'lost'
    this.#workers.push({
      name,
      status: 'active',
      heartbeatAt: this.now,
      suspectAt: undefined,
      returnedAt: 0,
    })
  }

  #beat(worker: Worker): void {
    if (worker.heartbeatAt < this.now - TTL) worker.returnedAt = this.now
    worker.heartbeatAt = this.now
    worker.suspectAt = undefined
  }

  /** The jobs of the named ones that a heartbeat must call lost, to be cancelled or out of time. */
  heartbeat(name: string, named: readonly Job[]): Map<number, string> | 'JE010' {
    const worker = this.present(name)
    if (worker === undefined) return 'JE010'
    this.#beat(worker)
    const directives = new Map<number, string>()
    for (const job of named) {
      if (job.place !== 'lease' || job.worker !== worker) directives.set(job.id, 'lost')
      else if (job.isCancelRequested) directives.set(job.id, 'cancel')
      else if (job.deadline !== undefined && job.deadline <= this.now)
        directives.set(job.id, 'timeout')
      if (job.worker === worker && Math.max(job.startedAt, job.seenAt) < this.now - TTL)
        job.seenAt = this.now
    }
    return directives
  }

  /** Housekeeping: two looks at the silent, leases taken back, the due brought back. */
  maintain(): void {
    const active = this.#workers.filter((worker) => worker.status === 'active')
    for (const worker of active) {
      if (worker.suspectAt === undefined && worker.heartbeatAt < this.now - TTL / 2)
        worker.suspectAt = this.now
    }
    for (const worker of active) {
      const isSilent = worker.suspectAt !== undefined && worker.suspectAt <= this.now - TTL / 2
      if (isSilent && worker.heartbeatAt < this.now - TTL) worker.status = 'lost'
    }
    for (const job of this.#at('lease')) {
      const worker = job.worker as Worker
      const heard = Math.max(job.startedAt, job.seenAt, worker.returnedAt)
      const isOverdue = job.deadline !== undefined && job.deadline <= this.now
      const isLost = worker.status !== 'active' || heard < worker.heartbeatAt - 3 * TTL
      if (isOverdue) this.fail(job, undefined)
      else if (isLost) this.fail(job, 0)
    }
    for (const job of this.#at('suspended')) {
      if (job.wakeAt !== undefined && job.wakeAt <= this.now) this.#line(job)
    }
    this.#promote(-1)
  }
}
