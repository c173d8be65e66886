import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { MigrationError, migrate, pendingScript } from '../../src/database/migrate.ts'
import {
  BrokenChainError,
  formatMigration,
  fullScript,
  readMigrations,
  scriptOf,
} from '../../src/database/migrations.ts'
import { schemaSnapshot } from '../../src/database/snapshot.ts'
import { freshRole } from '../support/role.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { run } from '../support/template.ts'

let committed: string[]
let migrated: TestDatabase
beforeAll(async () => {
  committed = (await readMigrations()).map(({ name }) => name)
  migrated = await testDatabase()
})
afterAll(() => migrated.drop())

/** An empty database that goes with the test. */
async function emptyDatabase(): Promise<TestDatabase> {
  const database = await testDatabase({ migrated: false })
  onTestFinished(() => database.drop())
  return database
}

/** A directory of small migrations, which make the record's table as our first one does. */
function directoryOf(...bodies: string[]): string {
  const directory = mkdtempSync(path.join(tmpdir(), 'fencepost-migrations-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const first = `create schema fencepost_private;
    create table fencepost_private.migration (number int primary key, name text, hash text)`
  let previous: string | undefined
  for (const [index, body] of [first, ...bodies].entries()) {
    const text = formatMigration(body, previous)
    writeFileSync(path.join(directory, `00000${index + 1}.sql`), text)
    previous = /Hash: (.*)/.exec(text)?.[1]
  }
  return directory
}

describe('a migration', () => {
  it('of an empty database applies all, and the next one nothing', async () => {
    const { url } = await emptyDatabase()
    const lines: string[] = []
    expect(await migrate(url, { log: (line) => lines.push(line) })).toEqual({
      applied: committed,
      pending: [],
    })
    expect(lines).toEqual(committed.map((name) => `applied ${name}`))
    expect(await migrate(url)).toEqual({ applied: [], pending: [] })
  })

  it('makes the same schema as sql/ does', async () => {
    const { url } = await emptyDatabase()
    await migrate(url)
    expect(await schemaSnapshot(url, { exact: true })).toBe(
      await schemaSnapshot(migrated.url, { exact: true }),
    )
  })

  it('that runs twice at once is applied by one, and the other finds nothing', async () => {
    const { url } = await emptyDatabase()
    const results = await Promise.all([migrate(url), migrate(url), migrate(url)])
    expect(results.flatMap(({ applied }) => applied)).toEqual(committed)
  })

  it('tried dry tells what it would do, and does nothing', async () => {
    const { url, db } = await emptyDatabase()
    expect(await migrate(url, { dryRun: true })).toEqual({ applied: [], pending: committed })
    expect(await db.query("select to_regnamespace('fencepost_private') as found")).toEqual([
      { found: null },
    ])
  })

  it('needs no superuser, only the right to create schemas', async () => {
    const { url, name } = await emptyDatabase()
    await using role = await freshRole(url)
    await expect(migrate(role.url)).rejects.toMatchObject({
      code: '42501',
      hint: expect.stringContaining('grant create on database'),
    })
    await run(url, `grant create on database ${name} to ${role.name}`)
    expect(await migrate(role.url)).toMatchObject({ applied: committed })
  })

  it('is for the owner of the schemas: others are told who it is', async () => {
    const { url } = await emptyDatabase()
    await migrate(url)
    await using role = await freshRole(url)
    const refusal = { code: '42501', hint: expect.stringContaining('owns the schemas') }
    await expect(migrate(role.url)).rejects.toMatchObject(refusal)
    await expect(pendingScript(role.url)).rejects.toMatchObject(refusal)
  })

  it('that fails leaves nothing of itself, and says where', async () => {
    const { url, db } = await emptyDatabase()
    const directory = directoryOf(
      'create table public.one ();',
      'create table public.two ();\nselect 1/0;',
    )
    const failure = await migrate(url, { directory }).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(MigrationError)
    expect(failure).toMatchObject({ code: '22012', message: '000003.sql: division by zero' })
    expect(
      await db.query("select to_regclass('public.one') as one, to_regclass('public.two') as two"),
    ).toEqual([{ one: 'one', two: null }])
    expect(await migrate(url, { directory, dryRun: true })).toMatchObject({
      pending: ['000003.sql'],
    })
  })

  it('waits a limited time for a table that others use', async () => {
    const { url, db } = await emptyDatabase()
    const directory = directoryOf(
      'create table public.busy ()',
      "set local lock_timeout = '20ms'; alter table public.busy add n int",
    )
    await migrate(url, { directory: directoryOf('create table public.busy ()') })
    const reader = new pg.Client({ connectionString: url })
    await reader.connect()
    await reader.query('begin; select from public.busy')
    await expect(migrate(url, { directory })).rejects.toMatchObject({ code: '55P03' })
    await reader.end()
    expect(await migrate(url, { directory })).toMatchObject({ applied: ['000003.sql'] })
    expect(await db.query('select n from public.busy')).toEqual([])
  })
})

describe('a database that does not belong to this version', () => {
  it('of a newer version is refused', async () => {
    const { url } = await emptyDatabase()
    await migrate(url, { directory: directoryOf('select 1') })
    await expect(migrate(url, { directory: directoryOf() })).rejects.toMatchObject({
      code: 'JE011',
      message: expect.stringContaining('000002.sql, which this version of Fencepost does not know'),
    })
  })

  it('of another history is refused', async () => {
    const { url } = await emptyDatabase()
    await migrate(url, { directory: directoryOf('select 1') })
    await expect(migrate(url, { directory: directoryOf('select 2') })).rejects.toMatchObject({
      code: 'JE011',
      message: expect.stringContaining('another migration 2'),
    })
  })
})

describe('committed files', () => {
  it.each([
    [
      'a changed text',
      '000002.sql',
      (text: string) => text.replace('select 1', 'select 3'),
      'changed after it was committed',
    ],
    [
      'a wrong predecessor',
      '000002.sql',
      (text: string) => text.replace(/Previous: .*/, 'Previous: sha1:00'),
      'does not follow 000001.sql',
    ],
    ['no header', '000002.sql', () => 'select 1;', 'does not begin with'],
    [
      'a gap',
      '000004.sql',
      () => '--! Previous: -\n--! Hash: sha1:00\n\nselect 1\n',
      'expected migration number 3',
    ],
  ])('with %s are refused', async (_, name, change, message) => {
    const directory = directoryOf('select 1')
    const text = formatMigration('select 1', (await readMigrations(directory))[0]?.hash)
    writeFileSync(path.join(directory, name), change(text))
    const refusal = readMigrations(directory)
    await expect(refusal).rejects.toThrow(BrokenChainError)
    await expect(refusal).rejects.toThrow(message)
  })

  it('are the same to us with the line ends of Windows', async () => {
    const directory = directoryOf('select 1;\nselect 2')
    const before = await readMigrations(directory)
    for (const { name, body, previous } of before) {
      const text = formatMigration(body, previous).replaceAll('\n', '\r\n')
      writeFileSync(path.join(directory, name), text)
    }
    expect(await readMigrations(directory)).toEqual(before)
  })
})

describe('the script for psql', () => {
  it('does what the migration does, and is refused the second time', async () => {
    const { url } = await emptyDatabase()
    const script = await fullScript()
    expect(await pendingScript(url)).toBe(script)
    await run(url, script)
    expect(await migrate(url)).toEqual({ applied: [], pending: [] })
    expect(await pendingScript(url)).toBe('-- Nothing to do.\n')
    expect(await schemaSnapshot(url)).toBe(await schemaSnapshot(migrated.url))
    await expect(run(url, script)).rejects.toThrow('this script begins after migration 0')
  })

  it('of an upgrade is refused by a database at another migration', async () => {
    const { url } = await emptyDatabase()
    const directory = directoryOf('select 1', 'select 2')
    const [, , third] = await readMigrations(directory)
    await migrate(url, { directory: directoryOf() })
    await expect(run(url, scriptOf(third ? [third] : []))).rejects.toThrow('after migration 2')
    await run(url, await pendingScript(url, directory))
    expect(await migrate(url, { directory })).toEqual({ applied: [], pending: [] })
  })
})
