import pg from 'pg'
import {
  LOCK_STATEMENT,
  type Migration,
  readMigrations,
  recordStatement,
  SETTINGS_STATEMENTS,
  scriptOf,
} from './migrations.ts'

// A migration uses a client of node-postgres and not the engine's driver: it wants one session of its
// own, texts of many statements, and no deadline.

/** How a database is brought up to date. */
export interface MigrateOptions {
  /** Only tells what would be applied. */
  readonly dryRun?: boolean
  /** Hears a line for each migration. */
  readonly log?: (line: string) => void
  /** Directory of committed migrations. Default: those of this version. */
  readonly directory?: string
}

/** The names of migrations, in their order. */
export interface MigrateResult {
  readonly applied: string[]
  /** What is still missing: empty, unless it was a dry run. */
  readonly pending: string[]
}

/** A migration failed or may not be applied; nothing of it remains. */
export class MigrationError extends Error {
  override name = 'MigrationError'
  /** `JE011` when database and version do not belong together, else the SQLSTATE of what failed. */
  readonly code: string | undefined
  readonly hint: string | undefined

  constructor(message: string, code: string | undefined, hint?: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
    this.hint = hint
  }
}

/** How often a migration that could not get its locks is tried again. Each try waits up to 5 s. */
const LOCK_TRIES = 5
/** How long a server may take to answer, in ms. */
const CONNECT_TIMEOUT = 15_000
/** The oldest supported server. */
const MINIMUM_SERVER = 15

/**
 * Applies the migrations that a database lacks, each in a transaction of its own. Needs the right to
 * create schemas in the database, no superuser and no extension. Two at once: one applies, the other
 * waits and finds nothing to do.
 *
 * @throws MigrationError, and BrokenChainError when the files are not those that were committed
 */
export async function migrate(url: string, options: MigrateOptions = {}): Promise<MigrateResult> {
  const migrations = await readMigrations(options.directory)
  return withClient(url, async (client) => {
    const pending = missing(migrations, await recorded(client))
    if (options.dryRun) return { applied: [], pending: pending.map(({ name }) => name) }
    const applied: string[] = []
    for (const migration of pending) {
      if (await apply(client, migration, migrations)) {
        applied.push(migration.name)
        options.log?.(`applied ${migration.name}`)
      }
    }
    return { applied, pending: [] }
  })
}

/** What `migrate` would run on a database, as one script. */
export async function pendingScript(url: string, directory?: string): Promise<string> {
  const migrations = await readMigrations(directory)
  return withClient(url, async (client) => scriptOf(missing(migrations, await recorded(client))))
}

async function withClient<T>(url: string, run: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'fencepost migrate',
    connectionTimeoutMillis: CONNECT_TIMEOUT,
  })
  client.on('error', () => {}) // the statement in flight fails and says it
  try {
    await client.connect()
    await checkServer(client)
    return await run(client)
  } catch (error) {
    const mayNot = error instanceof pg.DatabaseError && error.code === NOT_ALLOWED
    throw mayNot ? new MigrationError(error.message, NOT_ALLOWED, OWNER, error) : error
  } finally {
    await client.end().catch(() => {})
  }
}

async function checkServer(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ server_version: string }>('show server_version')
  const version = rows[0]?.server_version ?? ''
  if (Number.parseInt(version, 10) < MINIMUM_SERVER) {
    throw new MigrationError(
      `Fencepost needs PostgreSQL ${MINIMUM_SERVER} or newer, and this server is ${version}.`,
      'JE011',
    )
  }
}

interface Recorded {
  number: number
  name: string
  hash: string
}

async function recorded(client: pg.Client): Promise<Recorded[]> {
  const table = await client.query<{ exists: boolean }>(
    "select to_regclass('fencepost_private.migration') is not null as exists",
  )
  if (!table.rows[0]?.exists) return []
  const { rows } = await client.query<Recorded>(
    'select number, name, hash from fencepost_private.migration order by number',
  )
  return rows
}

/** The migrations that are not recorded yet, provided that those recorded are the first of ours. */
function missing(migrations: readonly Migration[], found: readonly Recorded[]): Migration[] {
  for (const [index, record] of found.entries()) {
    const ours = migrations[index]
    if (ours === undefined) {
      throw new MigrationError(
        `The database holds the migration ${record.name}, which this version of Fencepost does not know.`,
        'JE011',
        'A newer version migrated it: use that version, or a newer one.',
      )
    }
    if (ours.hash !== record.hash) {
      throw new MigrationError(
        `The database holds another migration ${record.number} (${record.name}) than this version of Fencepost (${ours.name}).`,
        'JE011',
        'Use the version that migrated it. Was it an unreleased one? Then begin with a new database.',
      )
    }
  }
  return migrations.slice(found.length)
}

/** Applies one migration; false when another runner did so while we waited for the lock. */
async function apply(
  client: pg.Client,
  migration: Migration,
  all: readonly Migration[],
): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    try {
      await client.query('begin isolation level read committed')
      await client.query(LOCK_STATEMENT)
      const open = missing(all, await recorded(client)).includes(migration)
      if (open) {
        await client.query(SETTINGS_STATEMENTS.join(' '))
        await client.query(migration.body)
        await client.query(recordStatement(migration))
      }
      await client.query('commit')
      return open
    } catch (error) {
      await client.query('rollback').catch(() => {})
      const locked = error instanceof pg.DatabaseError && error.code === '55P03'
      if (!locked || attempt === LOCK_TRIES) throw explained(error, migration, all)
    }
  }
}

/** Without the right to it, a role is told who has it. */
const OWNER =
  'Migrate as the role that did so first, and owns the schemas fencepost and fencepost_private.'
const CREATE = 'The role needs the right to create schemas: grant create on database … to …'

const NOT_ALLOWED = '42501'

function explained(error: unknown, migration: Migration, all: readonly Migration[]): unknown {
  if (!(error instanceof pg.DatabaseError)) return error
  const line =
    error.position === undefined
      ? ''
      : `, line ${migration.body.slice(0, Number(error.position)).split('\n').length}`
  const mayNot = migration === all[0] ? CREATE : OWNER
  return new MigrationError(
    `${migration.name}${line}: ${error.message}`,
    error.code,
    error.code === NOT_ALLOWED ? mayNot : error.hint,
    error,
  )
}
