import type { JobContext } from 'fencepost'
import postgres from 'postgres'

/** The database that the jobs are in; it connects when it is first asked. */
export const sql = postgres(process.env.DATABASE_URL ?? '', { max: 5, onnotice: () => {} })

export type Transaction = postgres.TransactionSql

/**
 * Writes, and completes the job with what that returns, in one commit: after a crash either both are
 * there or neither, and a job that lost its lease leaves nothing behind.
 */
export async function completing<Result>(
  ctx: JobContext,
  write: (tx: Transaction) => Promise<Result>,
): Promise<Result> {
  const outcome = await sql.begin(async (tx) => {
    const result = await write(tx)
    await ctx.complete(tx, result)
    return { result }
  })
  return outcome.result as Result
}
