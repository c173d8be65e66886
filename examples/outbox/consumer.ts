import type { EventFilter, Fencepost, LogEvent, PollOptions } from 'fencepost'

/** What the consumers look at of an event. */
export type Event = Pick<
  LogEvent,
  'id' | 'kind' | 'at' | 'tenant' | 'type' | 'runId' | 'workflow' | 'outcome'
> &
  Pick<LogEvent, 'readyAt' | 'startedAt'>

/** An independent consumer of the event log. */
export interface Consumer {
  readonly name: string
  readonly filter: EventFilter & { readonly kinds: readonly string[] }
  /** Works until the signal is aborted; then what is under way is finished. */
  run(engine: Fencepost, options: PollOptions): Promise<void>
  /**
   * Works on events that another source brings, as Kafka does: one that was brought before changes nothing.
   */
  take(engine: Fencepost, events: readonly Event[]): Promise<void>
}
