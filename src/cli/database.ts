import { connect, type Database } from '../database/database.ts'
import { UsageError } from './arguments.ts'
import type { Invocation } from './command.ts'
import { runningDev } from './dev/state.ts'

/**
 * The database that is meant: --url, else DATABASE_URL, else that of a running `fencepost dev`.
 *
 * @throws UsageError when there is none
 */
export function databaseUrl(invocation: Invocation): string {
  const { env } = invocation.terminal
  const url = invocation.text('url') ?? env.DATABASE_URL ?? runningDev(env)?.databaseUrl
  if (url) return url
  throw new UsageError(
    'no database: neither --url nor DATABASE_URL is set, and fencepost dev does not run here',
    'For example DATABASE_URL=postgresql://user:password@localhost:5432/app, or start fencepost dev.',
  )
}

/** Connects, works, and leaves nothing open. */
export async function withDatabase<T>(
  invocation: Invocation,
  run: (db: Database) => Promise<T>,
): Promise<T> {
  await using db = connect({
    url: databaseUrl(invocation),
    max: 2,
    applicationName: 'fencepost cli',
  })
  return await run(db)
}
