import type { Queryable } from '../../src/database/database.ts'

// The engine reads time from one function alone. Tests replace that function, for all sessions of
// their database, and never wait.

/** Moves the engine's clock by an interval such as `1 hour` or `-3 s`. A frozen clock stays frozen. */
export async function moveClock(db: Queryable, by: string): Promise<void> {
  await replace(
    db,
    `select case when frozen then quote_literal(now + $1::interval) || '::timestamptz'
                 else 'clock_timestamp() + ' || quote_literal(now - clock_timestamp() + $1::interval) || '::interval' end as body
     from (select fencepost_private.now() as now,
                  pg_get_functiondef('fencepost_private.now()'::regprocedure) not like '%clock_timestamp%' as frozen) as clock`,
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
