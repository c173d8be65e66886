import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** One committed migration: immutable once released. */
export interface Migration {
  /** 1, 2, 3 … without a gap. */
  readonly number: number
  /** The file's name, as `000001-first.sql`. */
  readonly name: string
  /** Covers the body and the hash before it, so that the last hash vouches for the whole chain. */
  readonly hash: string
  readonly previous: string | undefined
  readonly body: string
}

/** A migration file is not what was committed, or the files do not form one chain. */
export class BrokenChainError extends Error {
  override name = 'BrokenChainError'
}

/** The committed migrations of this version; at the same place from src/ and from dist/. */
export const COMMITTED = fileURLToPath(new URL('../../migrations/committed/', import.meta.url))

/**
 * Reads a directory of committed migrations, in the format of graphile-migrate 2, and checks the
 * chain of their hashes.
 *
 * @throws BrokenChainError
 */
export async function readMigrations(directory: string = COMMITTED): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.sql')).sort()
  const migrations: Migration[] = []
  for (const name of names) {
    // A checkout on Windows may have rewritten the line ends.
    const text = await readFile(path.join(directory, name), 'utf8')
    const migration = parseMigration(name, text.replaceAll('\r\n', '\n'))
    const before = migrations.at(-1)
    if (migration.number !== migrations.length + 1) {
      throw new BrokenChainError(`${name}: expected migration number ${migrations.length + 1}`)
    }
    if (migration.previous !== before?.hash) {
      throw new BrokenChainError(`${name}: it does not follow ${before?.name ?? 'the beginning'}`)
    }
    if (migration.hash !== hashOf(migration.body, migration.previous)) {
      throw new BrokenChainError(`${name}: its text was changed after it was committed`)
    }
    migrations.push(migration)
  }
  return migrations
}

/** The hash of a migration's body after the migration with the hash `previous`. */
export function hashOf(body: string, previous: string | undefined): string {
  const text = `${`${previous ?? ''}\n${body.trim()}`.trim()}\n`
  return `sha1:${createHash('sha1').update(text).digest('hex')}`
}

/** The text of a committed file. */
export function formatMigration(body: string, previous: string | undefined): string {
  return `--! Previous: ${previous ?? '-'}\n--! Hash: ${hashOf(body, previous)}\n\n${body.trim()}\n`
}

/**
 * Migrations as one script, for `psql -f` or any other tool: a single transaction, which records
 * them, so that `fencepost migrate` then finds nothing to do.
 */
export function scriptOf(migrations: readonly Migration[]): string {
  if (migrations.length === 0) return '-- Nothing to do.\n'
  const parts = migrations.map((migration) =>
    [`-- ${migration.name}`, closed(migration.body), recordStatement(migration)].join('\n\n'),
  )
  return ['begin;', ...PRELUDE, guard(migrations), ...parts, 'commit;', ''].join('\n\n')
}

/** All committed migrations as one script. */
export async function fullScript(): Promise<string> {
  return scriptOf(await readMigrations())
}

/** One migration runs at a time in a database, whoever starts it. Held to the transaction's end. */
export const LOCK_STATEMENT =
  "select pg_advisory_xact_lock(hashtextextended('fencepost.migrate', 0));"

/**
 * What holds inside a migration's transaction: every name in it is qualified, and it gives up rather
 * than make the traffic of the database queue behind it.
 */
export const SETTINGS_STATEMENTS: readonly string[] = [
  "set local search_path = '';",
  "set local lock_timeout = '5s';",
  'set local statement_timeout = 0;',
  'set local client_min_messages = warning;',
]

/** Records a migration as applied. */
export function recordStatement({ number, name, hash }: Migration): string {
  return `insert into fencepost_private.migration (number, name, hash) values (${number}, '${name}', '${hash}');`
}

const PRELUDE = [LOCK_STATEMENT, SETTINGS_STATEMENTS.join('\n')]

/** A body's last statement may come without its semicolon. */
function closed(body: string): string {
  const text = body.trim()
  return text.endsWith(';') ? text : `${text}\n;`
}

/** Stops a script that was meant for another state of the database before it changes anything. */
function guard(migrations: readonly Migration[]): string {
  const expected = (migrations[0]?.number ?? 1) - 1
  const found =
    expected === 0
      ? "to_regclass('fencepost_private.migration') is not null"
      : `(select coalesce(max(number), 0) from fencepost_private.migration) <> ${expected}`
  return [
    'do $$ begin',
    `  if ${found} then`,
    `    raise exception 'this script begins after migration ${expected}, and the database is at another one'`,
    "      using hint = 'run fencepost migrate, which applies what is missing';",
    '  end if;',
    'end $$;',
  ].join('\n')
}

function parseMigration(name: string, text: string): Migration {
  const number = Number(/^(\d+)(-[-_a-zA-Z0-9]*)?\.sql$/.exec(name)?.[1])
  if (!Number.isInteger(number)) throw new BrokenChainError(`${name}: not a migration's name`)
  const header = /^--! Previous: (\S+)\n--! Hash: (\S+)\n(?:--! Message: .*\n)?\n/.exec(text)
  if (header === null) {
    throw new BrokenChainError(`${name}: it does not begin with "--! Previous" and "--! Hash"`)
  }
  const [whole, previous = '', hash = ''] = header
  const body = text.slice(whole.length)
  if (/^--! ?no-transaction/.test(body)) {
    throw new BrokenChainError(`${name}: a migration always runs in a transaction`)
  }
  return { number, name, hash, previous: previous === '-' ? undefined : previous, body }
}
