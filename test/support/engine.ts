import { randomBytes } from 'node:crypto'
import { json, type Queryable } from '../../src/database/database.ts'
import { column, one } from './sql.ts'

// The engine's own calls, as short as tests need them. They go to SQL directly: what is tested is the contract of
// the SQL functions, not the client above them.

/** A job that a worker holds. */
export interface Claimed {
  readonly job_id: number
  readonly token: number
  readonly type: string
  readonly attempt: number
  readonly payload: unknown
  readonly priority: number
}

/** What enqueue takes besides the type. */
export interface Options {
  readonly payload?: unknown
  readonly priority?: number
  readonly run_at?: Date | string
  readonly delay?: string
  readonly idempotency_key?: string
  readonly max_attempts?: number
  readonly timeout?: string
  readonly headers?: unknown
  readonly tenant?: string
}

/** A type of work that no other test uses. */
export function freshType(word = 'work'): string {
  return `${word}.${randomBytes(5).toString('hex')}`
}

export function enqueue(db: Queryable, type: string, options: Options = {}): Promise<number> {
  const names = Object.keys(options)
  const list = names.map((name, index) => `, ${name} => $${index + 2}`).join('')
  const values = Object.entries(options).map(([name, value]) =>
    name === 'payload' || name === 'headers' ? json(value) : value,
  )
  return one<number>(db, `select fencepost.enqueue($1${list})`, [type, ...values])
}

/** Enqueues `count` equal jobs; their ids in order. */
export function enqueueBatch(db: Queryable, type: string, count: number): Promise<number[]> {
  return one<number[]>(
    db,
    `select fencepost.enqueue_batch($1, array_fill('{}'::jsonb, array[$2::int]))`,
    [type, count],
  )
}

export function claim(
  db: Queryable,
  types: string | readonly string[],
  max = 1,
  worker = 'worker-1',
): Promise<Claimed[]> {
  const list = typeof types === 'string' ? [types] : types
  return db.query<Claimed>('select * from fencepost.claim($1, $2, $3)', [worker, list, max])
}

/** Claims one job, which must be there. */
export async function claimOne(db: Queryable, type: string, worker = 'worker-1'): Promise<Claimed> {
  const [job] = await claim(db, type, 1, worker)
  if (job === undefined) throw new Error(`nothing to claim of ${type}`)
  return job
}

/** Enqueues a job and claims it. */
export async function started(
  db: Queryable,
  type: string,
  options: Options = {},
  worker = 'worker-1',
): Promise<Claimed> {
  await enqueue(db, type, options)
  return claimOne(db, type, worker)
}

export async function complete(db: Queryable, job: Claimed, result?: unknown): Promise<void> {
  await db.query('select fencepost.complete($1, $2, $3)', [
    job.job_id,
    job.token,
    result === undefined ? null : json(result),
  ])
}

export function fail(db: Queryable, job: Claimed, error = 'no luck'): Promise<string> {
  return one<string>(db, 'select fencepost.fail($1, $2, $3)', [job.job_id, job.token, error])
}

/** Fails it for good: it is dead-lettered. */
export async function bury(db: Queryable, job: Claimed, error = 'no use'): Promise<void> {
  await one(db, 'select fencepost.fail($1, $2, $3, permanent => true)', [
    job.job_id,
    job.token,
    error,
  ])
}

/** `pending`, `running`, `waiting`, `completed`, `dead_letter`, `cancelled`, `discarded`, or null. */
export function status(db: Queryable, id: number): Promise<string | null> {
  return one<string | null>(db, 'select fencepost_private.job_status($1)', [id])
}

/** The table that holds the job, or none once it has ended. */
export function places(db: Queryable, id: number): Promise<string[]> {
  return column<string>(
    db,
    `select 'ready' from fencepost_private.ready where id = $1
     union all select 'delayed' from fencepost_private.delayed where id = $1
     union all select 'parked' from fencepost_private.parked where id = $1
     union all select 'lease' from fencepost_private.lease where id = $1
     union all select 'suspended' from fencepost_private.suspended where id = $1
     union all select 'dead_letter' from fencepost_private.dead_letter where id = $1`,
    [id],
  )
}

/** The kinds of a job's stored events, oldest first. */
export function kinds(db: Queryable, id: number): Promise<string[]> {
  return column<string>(
    db,
    'select kind::text from fencepost_private.event where job_id = $1 order by id',
    [id],
  )
}

/** How its attempts ended, oldest first. */
export function outcomes(db: Queryable, id: number): Promise<string[]> {
  return column<string>(
    db,
    `select outcome::text from fencepost_private.event
     where job_id = $1 and outcome is not null order by id`,
    [id],
  )
}

/** Writes settings of a type into its row, which is made if need be. */
export async function settings(
  db: Queryable,
  type: string,
  values: Record<string, unknown>,
): Promise<void> {
  await db.query(
    'insert into fencepost_private.job_type (type) values ($1) on conflict do nothing',
    [type],
  )
  const list = Object.keys(values).map((name, index) => `${name} = $${index + 2}`)
  await db.query(`update fencepost_private.job_type set ${list.join(', ')} where type = $1`, [
    type,
    ...Object.values(values),
  ])
}

/** Housekeeping, as a worker calls it each second. */
export async function maintain(db: Queryable): Promise<void> {
  const failed = await db.query(
    'select step, error from fencepost.maintain() where error is not null',
  )
  if (failed.length > 0) throw new Error(`maintain(): ${JSON.stringify(failed)}`)
}

/** What the engine's own check of itself finds: nothing, in a healthy database. */
export function violations(db: Queryable): Promise<Record<string, unknown>[]> {
  return db.query('select * from fencepost.check_invariants()')
}
