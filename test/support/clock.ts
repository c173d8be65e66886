import type { Queryable } from '../../src/database/database.ts'

// The engine reads time from one function alone. Tests replace that function, for all sessions of
// their database, and never wait.

/**
 * Moves the engine's clock by an interval such as `1 hour` or `-3 s`. A frozen clock stays frozen.
 *
 * Exact however busy the machine is: a clock that runs is the server's plus an interval, to which this one is added.
 */
export async function moveClock(db: Queryable, by: string): Promise<void> {
  await replace(
    db,
    `select case when clock.text like '%clock_timestamp()%'
                 then 'clock_timestamp() + ' || quote_literal(coalesce(substring(clock.text from '''(.*)''::interval')::interval, '0') + $1::interval) || '::interval'
                 else quote_literal(fencepost_private.now() + $1::interval) || '::timestamptz' end as body
     from pg_get_functiondef('fencepost_private.now()'::regprocedure) as clock(text)`,
    [by],
  )
}

/** Stops the engine's clock, where it stands or at the time given. */
export async function freezeClock(db: Queryable, at?: Date): Promise<void> {
  await replace(
    db,
    `select quote_literal(coalesce($1::timestamptz, fencepost_private.now())) || '::timestamptz' as body`,
    [at ?? null],
  )
}

/** The engine's clock is the server's again. */
export async function restoreClock(db: Queryable): Promise<void> {
  await replace(db, `select 'clock_timestamp()' as body`, [])
}

async function replace(db: Queryable, text: string, params: readonly unknown[]): Promise<void> {
  const [row] = await db.query<{ body: string }>(text, params)
  await db.query(
    `create or replace function fencepost_private.now() returns timestamptz
     language sql volatile parallel safe return ${row?.body}`,
  )
}
