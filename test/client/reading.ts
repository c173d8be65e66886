import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { Fencepost, type LogEvent, silentLogger } from '../../src/index.ts'
import { restoreClock } from '../support/clock.ts'
import { freshType } from '../support/engine.ts'
import { publishing } from '../support/outbox.ts'
import { ownDatabase } from '../support/server.ts'
import { column } from '../support/sql.ts'

/** Readers that look often, and say nothing of it. */
export const quiet = { logger: silentLogger, poll: 20 }

export const jobsOf = (events: readonly LogEvent[]) => events.map(({ jobId }) => jobId)

/** An engine with consumers to read: asked for at the top of a file, and there from its first hook on. */
export function reading() {
  const database = ownDatabase()
  const db = () => database.db
  let own: Fencepost
  beforeAll(async () => {
    own = new Fencepost({ url: database.url })
    await db().query('create table ledger (event_id bigint, reader text)')
  })
  afterAll(() => own.close())
  afterEach(() => restoreClock(db()))
  const engine = () => own

  return {
    database,
    db,
    engine,

    /** A consumer of the enqueues of a type of its own, by the same name. */
    async fresh(): Promise<string> {
      const name = await publishing(db(), freshType())
      await own.createConsumer(name, { filter: { types: [name] } })
      return name
    },

    put: (type: string, count: number) => own.enqueueBatch(type, Array(count).fill({})),

    /** The ids of the events that a reader of this name has written down. */
    ledger: (reader: string) =>
      column<number>(db(), 'select event_id from ledger where reader = $1 order by event_id', [
        reader,
      ]),

    /** Waits until a consumer has nothing more to read. */
    caughtUp: (name: string) =>
      expect.poll(async () => (await own.consumer(name))?.lagEvents).toBe(0),

    /** Reads and acknowledges batches until so many events were seen. */
    async read(name: string, count: number): Promise<LogEvent[]> {
      const seen: LogEvent[] = []
      for await (const batch of own.subscribe(name, quiet)) {
        seen.push(...batch.events)
        await batch.ack()
        if (seen.length >= count) break
      }
      return seen
    },
  }
}
