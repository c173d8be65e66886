// What runs should do, told again and as plainly as possible: no queues, no numbers, no SQL.

export type Kind = 'job' | 'approval' | 'signal' | 'timer'
export type Policy = 'fail' | 'skip' | 'continue'
export type Status =
  | 'pending'
  | 'queued'
  | 'running'
  | 'waiting'
  | 'completed'
  | 'failed'
  | 'skipped'
  | 'cancelled'

/** A task as it is defined. */
export interface TaskPlan {
  readonly name: string
  readonly kind: Kind
  readonly after: readonly string[]
  /** Its condition is false. */
  readonly isOff: boolean
  readonly goesOn: boolean
  readonly onReject: Policy
}

/** A task as it stands. */
export interface TaskState {
  readonly plan: TaskPlan
  status: Status
  /** Its children were told that it has ended well; that is never taken back. */
  released: boolean
  attempts: number
  /** Its retry is not due yet. */
  isLate: boolean
  /** It was asked to stop. */
  isUnwanted: boolean
  hasDeadLetter: boolean
  /** A gate has failed it. */
  wasRefused: boolean
  hasGate: boolean
  dueAt: number | undefined
  token: number
}

const MINUTES_TO_WAIT = 60

/** One run. */
export class RunModel {
  readonly tasks: readonly TaskState[]
  isPaused = false
  isCancelled = false
  /** Signals that nobody has taken. */
  signals = 0

  constructor(plans: readonly TaskPlan[], now: number) {
    this.tasks = plans.map((plan) => ({
      plan,
      status: 'pending',
      released: false,
      attempts: 0,
      isLate: false,
      isUnwanted: false,
      hasDeadLetter: false,
      wasRefused: false,
      hasGate: false,
      dueAt: undefined,
      token: 0,
    }))
    this.#goOn(now)
  }

  status(): string {
    const is = (...statuses: Status[]) => this.tasks.some((task) => statuses.includes(task.status))
    if (this.isCancelled) return 'cancelled'
    if (this.isPaused) return 'paused'
    if (
      this.tasks.some(
        (task) => (task.status === 'failed' && !task.released) || task.status === 'cancelled',
      )
    )
      return 'failed'
    if (!is('pending', 'queued', 'running', 'waiting')) return 'completed'
    return is('queued', 'running') ? 'running' : 'waiting'
  }

  canClaim(task: TaskState): boolean {
    return task.status === 'queued' && !task.isLate && !task.hasGate && !this.isPaused
  }

  canGate(task: TaskState): boolean {
    return ['pending', 'queued'].includes(task.status) && !task.hasGate
  }

  canReplay(task: TaskState): boolean {
    return task.status === 'failed' && !this.isCancelled
  }

  canSignal(): boolean {
    return !['completed', 'cancelled'].includes(this.status())
  }

  canPause(): boolean {
    return this.isPaused || !['completed', 'cancelled'].includes(this.status())
  }

  claim(task: TaskState): void {
    task.status = 'running'
    task.attempts++
  }

  complete(task: TaskState, now: number): void {
    this.#end(task, 'completed', now)
  }

  /** Returns the verdict. */
  fail(task: TaskState, isPermanent: boolean, now: number): string {
    if (task.isUnwanted) {
      this.#end(task, 'cancelled', now)
      return 'cancelled'
    }
    if (!isPermanent && task.attempts < 5) {
      task.status = 'queued'
      task.isLate = true
      return 'retry'
    }
    task.hasDeadLetter = true
    this.#end(task, 'failed', now)
    return 'dead_letter'
  }

  release(task: TaskState, now: number): void {
    if (task.isUnwanted) this.#end(task, 'cancelled', now)
    else {
      task.status = 'queued'
      task.attempts--
    }
  }

  /** A dead letter goes on with its job; anything else begins anew, behind the gate that had failed it. */
  replay(task: TaskState, now: number): void {
    task.status = task.hasDeadLetter ? 'queued' : 'pending'
    task.hasGate = task.wasRefused
    task.hasDeadLetter = false
    task.wasRefused = false
    task.attempts = 0
    task.isLate = false
    this.#goOn(now)
  }

  /** Cancels the job of one task. */
  cancelJob(task: TaskState, now: number): void {
    if (task.status === 'running') task.isUnwanted = true
    else this.#end(task, 'cancelled', now)
  }

  gate(task: TaskState): void {
    task.hasGate = true
  }

  decide(task: TaskState, isGood: boolean, now: number): void {
    if (task.hasGate) {
      task.hasGate = false
      if (isGood) this.#goOn(now)
      else {
        task.wasRefused = true
        this.#end(task, 'failed', now)
      }
      return
    }
    const rejected = { fail: 'failed', skip: 'skipped', continue: 'completed' } as const
    this.#end(task, isGood ? 'completed' : rejected[task.plan.onReject], now)
  }

  signal(now: number): void {
    this.signals++
    const waiting = this.tasks.find(
      (task) => task.plan.kind === 'signal' && task.status === 'waiting',
    )
    if (waiting === undefined) return
    this.signals--
    this.#end(waiting, 'completed', now)
  }

  pause(): void {
    this.isPaused = true
  }

  resume(now: number): void {
    this.isPaused = false
    this.#goOn(now)
  }

  cancel(now: number): void {
    this.isCancelled = true
    this.isPaused = false
    for (const task of this.tasks) {
      if (task.status === 'running') task.isUnwanted = true
      else if (['pending', 'queued', 'waiting'].includes(task.status))
        this.#end(task, 'cancelled', now)
    }
  }

  /** Time has passed: retries are due, timers fire, approvals expire. */
  tick(now: number): void {
    for (const task of this.tasks) task.isLate = false
    if (this.isPaused) return
    const due = this.tasks.filter(
      (task) => task.status === 'waiting' && task.dueAt !== undefined && task.dueAt <= now,
    )
    for (const task of due) {
      if (task.plan.kind === 'timer') this.#end(task, 'completed', now)
      else this.decide(task, false, now)
    }
  }

  #end(task: TaskState, status: Status, now: number): void {
    task.status = status
    task.hasGate = false
    task.dueAt = undefined
    task.released ||=
      ['completed', 'skipped'].includes(status) || (status === 'failed' && task.plan.goesOn)
    this.#goOn(now)
  }

  /** The join rule, until nothing moves. */
  #goOn(now: number): void {
    if (this.isPaused || this.isCancelled) return
    for (const task of this.tasks) {
      const parents = this.tasks.filter((other) => task.plan.after.includes(other.plan.name))
      if (task.status !== 'pending' || task.hasGate || parents.some((parent) => !parent.released))
        continue
      const nothing = parents.length > 0 && parents.every((parent) => parent.status === 'skipped')
      if (nothing || task.plan.isOff) this.#end(task, 'skipped', now)
      else this.#start(task, now)
    }
  }

  #start(task: TaskState, now: number): void {
    task.status = task.plan.kind === 'job' ? 'queued' : 'waiting'
    if (task.plan.kind === 'timer' || task.plan.kind === 'approval')
      task.dueAt = now + MINUTES_TO_WAIT
    if (task.plan.kind === 'signal' && this.signals > 0) {
      this.signals--
      this.#end(task, 'completed', now)
    }
  }
}
