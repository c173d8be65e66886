import { json, type Queryable } from '../../src/database/database.ts'
import { moveClock } from './clock.ts'
import { one } from './sql.ts'

/** An event as a consumer gets it. */
export interface Told {
  readonly position: string
  readonly id: number
  readonly kind: string
  readonly at: Date
  readonly tenant: string
  readonly type: string | null
  readonly job_id: number | null
  readonly run_id: number | null
  readonly outcome: string | null
  readonly data: unknown
}

export function createConsumer(
  db: Queryable,
  name: string,
  filter: object = {},
  start = 'now',
): Promise<boolean> {
  return one<boolean>(db, 'select fencepost.create_consumer($1, $2, $3)', [
    name,
    json(filter),
    start,
  ])
}

/** Reads once. */
export function readEvents(
  db: Queryable,
  consumer: string,
  max = 100,
  reader = 'reader-1',
): Promise<Told[]> {
  return db.query<Told>('select * from fencepost.read_events($1, $2, $3)', [consumer, max, reader])
}

export function ackEvents(db: Queryable, consumer: string, position: string): Promise<boolean> {
  return one<boolean>(db, 'select fencepost.ack_events($1, $2)', [consumer, position])
}

/** Lets a second pass, after which readers look anew, then reads and acknowledges until nothing is left. */
export async function drainEvents(
  db: Queryable,
  consumer: string,
  max = 100,
  reader = 'reader-1',
): Promise<Told[]> {
  await moveClock(db, '1 second')
  const events: Told[] = []
  for (;;) {
    const batch = await readEvents(db, consumer, max, reader)
    const last = batch.at(-1)
    if (last === undefined) return events
    events.push(...batch)
    await ackEvents(db, consumer, last.position)
  }
}

/** Where a consumer stands, as the view tells. */
export async function consumerState(
  db: Queryable,
  name: string,
): Promise<{
  lag_events: number
  lag_seconds: number
  reader: string | null
  parked: number
  expired_at: Date | null
}> {
  const [row] = await db.query<{
    lag_events: number
    lag_seconds: number
    reader: string | null
    parked: number
    expired_at: Date | null
  }>('select * from fencepost.consumers where name = $1', [name])
  if (row === undefined) throw new Error(`no consumer ${name}`)
  return row
}

/** Notes what can be read by now, as maintain() does each second: from then on a consumer is behind. */
export async function takeTick(db: Queryable): Promise<void> {
  await db.query(`select fencepost_private.tick('0')`)
}

/** A type whose jobs write an event when they are enqueued: one call, one event. */
export async function publishing(db: Queryable, type: string): Promise<string> {
  await db.query('select fencepost.configure_type($1, publish_enqueued => true)', [type])
  return type
}
