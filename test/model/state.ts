// What the model keeps.

/** Where a job stands, as the engine's tables name it, or how it ended. */
export type Place =
  | 'ready'
  | 'delayed'
  | 'lease'
  | 'suspended'
  | 'dead_letter'
  | 'completed'
  | 'cancelled'
  | 'discarded'

export interface Job {
  readonly id: number
  readonly type: string
  readonly maxAttempts: number
  readonly timeout: number | undefined
  place: Place
  priority: number
  /** Attempts that count. */
  attempts: number
  token: number
  /** Its place in the line: the transaction that put it there; then its id. */
  since: number
  /** When a delayed or suspended job comes back, in seconds. */
  wakeAt: number | undefined
  worker: Worker | undefined
  startedAt: number
  seenAt: number
  deadline: number | undefined
  isCancelRequested: boolean
}

export interface Worker {
  readonly name: string
  status: 'active' | 'lost' | 'stopped'
  heartbeatAt: number
  suspectAt: number | undefined
  returnedAt: number
}

export interface EnqueueOptions {
  readonly delay?: number | undefined
  readonly maxAttempts?: number | undefined
  readonly timeout?: number | undefined
  readonly key?: string | undefined
  readonly payload?: number | undefined
}
