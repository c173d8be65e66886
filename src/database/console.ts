import pg from 'pg'
import { decode } from './decode.ts'

// Statements that a person types want what the engine's driver does not give: every column also when two
// have one name, the results of all statements, and no deadline. So they run on a client of node-postgres.

/** What one statement gave. */
export interface StatementResult {
  readonly columns: readonly string[]
  /** Values in the order of the columns. */
  readonly rows: readonly (readonly unknown[])[]
  /** What was done, as `INSERT 3`. */
  readonly tag: string
}

/** How long a server may take to answer the first time, in ms. */
const CONNECT_TIMEOUT = 15_000

/**
 * Runs statements, all in one transaction unless they begin their own, and gives what each gave.
 *
 * @param onNotice told what the server says beside its answers
 */
export async function runStatements(
  url: string,
  text: string,
  onNotice: (notice: string) => void = () => {},
): Promise<StatementResult[]> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'fencepost sql',
    connectionTimeoutMillis: CONNECT_TIMEOUT,
  })
  client.on('error', () => {}) // the statement in flight fails and says it
  client.on('notice', ({ severity, message }) => onNotice(`${severity}: ${message}`))
  try {
    await client.connect()
    const types = { getTypeParser: (oid: number) => (value: string) => decode(value, oid) }
    const answer: unknown = await client.query({ text, rowMode: 'array', types })
    return ([answer].flat() as pg.QueryArrayResult[]).map((each) => ({
      columns: each.fields.map(({ name }) => name),
      rows: each.rows,
      tag: [each.command, each.rowCount].filter((part) => part !== null).join(' '),
    }))
  } finally {
    await client.end().catch(() => {})
  }
}
