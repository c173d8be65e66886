import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { ownDatabase } from '../support/server.ts'
import { column } from '../support/sql.ts'

// What holds for every object of the two schemas, and so for every object that will be added.

const database = ownDatabase()
const db = () => database.db

const OURS = `('fencepost'::regnamespace, 'fencepost_private'::regnamespace)`
/** Objects that break a rule, by name. */
const breaking = (text: string) => column<string>(db(), text)

describe('every object', () => {
  it('has a comment: schemas, tables, views, sequences, their columns, types and functions', async () => {
    // identity sequences belong to their column, partitions are commented when they are made
    expect(
      await breaking(`
        select 'schema ' || n.nspname from pg_namespace n
        where n.oid in ${OURS} and obj_description(n.oid, 'pg_namespace') is null
        union all
        select 'relation ' || c.oid::regclass from pg_class c
        where c.relnamespace in ${OURS} and c.relkind in ('r', 'p', 'v', 'm', 'S', 'c')
          and not (c.relkind = 'c') and obj_description(c.oid, 'pg_class') is null
          and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'i' and d.classid = 'pg_class'::regclass)
        union all
        select 'column ' || c.oid::regclass || '.' || a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid
        where c.relnamespace in ${OURS} and c.relkind in ('r', 'p', 'v') and not c.relispartition
          and a.attnum > 0 and not a.attisdropped and col_description(c.oid, a.attnum) is null
        union all
        select 'type ' || t.oid::regtype from pg_type t
        where t.typnamespace in ${OURS} and obj_description(t.oid, 'pg_type') is null and t.typcategory <> 'A'
          and (t.typtype in ('e', 'd', 'r') or t.typtype = 'c' and (select c.relkind from pg_class c where c.oid = t.typrelid) = 'c')
        union all
        select 'function ' || p.oid::regprocedure from pg_proc p
        where p.pronamespace in ${OURS} and obj_description(p.oid, 'pg_proc') is null
        order by 1`),
    ).toEqual([])
  })

  it('says what it is in a sentence, without a loose end', async () => {
    expect(
      await breaking(`
        select p.oid::regprocedure || ': ' || obj_description(p.oid, 'pg_proc') from pg_proc p
        where p.pronamespace in ${OURS} and obj_description(p.oid, 'pg_proc') !~ '^[A-Za-z(].*[.?]$'
        order by 1`),
    ).toEqual([])
  })
})

describe('every table', () => {
  it('has a replica identity, so that a publication of all tables stops no delete', async () => {
    expect(
      await breaking(`
        select c.oid::regclass::text from pg_class c
        where c.relnamespace in ${OURS} and c.relkind in ('r', 'p') and c.relpersistence = 'p'
          and c.relreplident <> 'f'
          and not (c.relreplident = 'd' and exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary))
        order by 1`),
    ).toEqual([])
  })
})

describe('every function', () => {
  it('pins its search_path to our private schema, or was parsed when it was made', async () => {
    expect(
      await breaking(`
        select p.oid::regprocedure::text from pg_proc p
        where p.pronamespace in ${OURS} and p.prosqlbody is null
          and not coalesce(p.proconfig, '{}') @> array['search_path=fencepost_private, pg_temp']
        order by 1`),
    ).toEqual([])
  })

  it('runs with the rights of its owner if it is public or looks things up for a view, and else of its caller', async () => {
    expect(
      await breaking(`
        select p.oid::regprocedure::text from pg_proc p
        where p.pronamespace in ${OURS}
          and p.prosecdef <> (p.pronamespace = 'fencepost'::regnamespace or p.prosqlbody is null and exists (
            select from pg_depend d join pg_rewrite r on r.oid = d.objid
            where d.refobjid = p.oid and d.refclassid = 'pg_proc'::regclass and d.classid = 'pg_rewrite'::regclass))
        order by 1`),
    ).toEqual([])
  })

  it('has plain parameter names if it is public, and p_ names if it is not', async () => {
    expect(
      await breaking(`
        select p.oid::regprocedure || ': ' || coalesce(a.name, 'without a name')
        from pg_proc p
        cross join lateral (
          select (p.proargnames)[i] as name, coalesce((p.proargmodes)[i], 'i') as mode
          from generate_series(1, greatest(p.pronargs, coalesce(array_length(p.proallargtypes, 1), 0))) as i
        ) as a
        where p.pronamespace in ${OURS} and a.mode in ('i', 'b')
          and coalesce(a.name, '') like 'p\\_%' = (p.pronamespace = 'fencepost'::regnamespace)
        order by 1`),
    ).toEqual([])
  })

  it('takes the time from the one clock', async () => {
    expect(
      await breaking(`
        select p.oid::regprocedure::text from pg_proc p
        where p.pronamespace in ${OURS} and p.proname <> 'now'
          and p.proname <> 'doctor_sessions' -- compares with times that the server itself has noted
          and (p.prosrc ~ '(clock_timestamp|current_timestamp|transaction_timestamp|statement_timestamp|timeofday|localtimestamp|current_date)'
               or p.prosrc ~ '(^|[^._a-z])now\\(\\)')
        order by 1`),
    ).toEqual([])
  })

  it('never names a table without its alias in a parameter: public parameters are written function.parameter', async () => {
    // a public parameter that is a column's name as well would be ambiguous, which PL/pgSQL reports only when it runs
    expect(
      await breaking(`
        select p.oid::regprocedure::text from pg_proc p join pg_language l on l.oid = p.prolang
        where p.pronamespace = 'fencepost'::regnamespace and l.lanname = 'plpgsql' and p.pronargs > 0
          and not exists (select from unnest(p.proargnames[1:p.pronargs]) as a(name) where p.prosrc ~ (p.proname || '\\.' || a.name || '\\M'))
        order by 1`),
    ).toEqual([])
  })

  it('of the hot path has one plan only', async () => {
    const HOT = [
      'beat',
      'cancel_jobs',
      'check_results',
      'claim_jobs',
      'complete_jobs',
      'enqueue_rows',
      'fail_jobs',
      'pick_jobs',
      'pick_lanes',
      'promote',
      'refresh_hint',
      'release_many',
      'replay_jobs',
      'resume_jobs',
      'running',
      'pending',
    ]
    const settings = ['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin'].map(
      (each) => `enable_${each}=off`,
    )
    const good = await column<string>(
      db(),
      `select p.proname from pg_proc p where p.pronamespace in ${OURS} and p.proconfig @> $1 and p.proconfig @> '{jit=off}' and p.proname = any ($2)`,
      [settings, HOT],
    )
    expect(HOT.filter((name) => !good.includes(name))).toEqual([])
  })
})

describe('every view', () => {
  it('or type is all that the public schema holds besides functions', async () => {
    expect(
      await breaking(`
        select c.oid::regclass::text from pg_class c
        where c.relnamespace = 'fencepost'::regnamespace and c.relkind not in ('v', 'c') order by 1`),
    ).toEqual([])
  })
})

describe('every file of sql/', () => {
  const root = fileURLToPath(new URL('../../sql/', import.meta.url))
  const files = readdirSync(root, { recursive: true })
    .map((name) => String(name).replaceAll('\\', '/'))
    .filter((name) => name.endsWith('.sql') && name !== 'install.sql')
  const text = (name: string) => readFileSync(`${root}${name}`, 'utf8')
  const publics = (name: string) =>
    [...text(name).matchAll(/create (?:or replace )?function fencepost\.(\w+)/g)].map(
      ([, each]) => each as string,
    )

  it('begins with a comment that says what it is about', () => {
    expect(files.filter((name) => !text(name).startsWith('-- '))).toEqual([])
  })

  it('holds one public function, named for it, or several that make one protocol', () => {
    const PROTOCOLS: Record<string, string[]> = {
      'jobs/wake.sql': [
        'wake_groups',
        'sleep_lock',
        'sleep_unlock',
        'sleep_pending',
        'sleep_horizon',
        'next_due',
      ],
    }
    for (const name of files) {
      const made = publics(name)
      if (made.length === 0) continue
      const own = name.replace(/^.*\/(\w+)\.sql$/, '$1')
      expect(made, name).toEqual(PROTOCOLS[name] ?? [own])
    }
  })

  it('writes the clauses of a function in one order: returns, language, volatility, security, search_path, other settings', () => {
    const CLAUSES = [
      /\breturns\b/,
      /\blanguage\b/,
      /\b(immutable|stable|volatile)\b/,
      /\bsecurity definer\b/,
      /\bset search_path\b/,
      /\bset (?!search_path)\w+/,
    ]
    const loose: string[] = []
    for (const name of files) {
      for (const [header, own] of text(name).matchAll(
        /^create function (?:fencepost|fencepost_private)\.(\w+)[^$]*?(?=\bas \$\$|^return\b|\nbegin atomic)/gms,
      )) {
        const places = CLAUSES.map((clause) =>
          header.replace(/\([^)]*\)/g, '').search(clause),
        ).filter((place) => place >= 0)
        if (places.some((place, n) => place < (places[n - 1] ?? -1))) loose.push(`${name}: ${own}`)
        if (!/\b(immutable|stable|volatile)\b/.test(header))
          loose.push(`${name}: ${own} does not say how volatile it is`)
      }
    }
    expect(loose).toEqual([])
  })

  it('names in the comment of each public function the errors that its head names', () => {
    const loose: string[] = []
    for (const name of files.filter((each) => publics(each).length === 1)) {
      const source = text(name)
      const head = source.slice(0, source.indexOf('create function'))
      const comment =
        source.match(/comment on function fencepost\.\w+\([^;]*?is\s+'((?:[^']|'')*)'/s)?.[1] ?? ''
      const codes = (words: string) => [...new Set(words.match(/JE\d{3}/g) ?? [])].sort()
      const missing = codes(comment).filter((code) => !codes(head).includes(code))
      if (missing.length > 0) loose.push(`${name}: its comment names ${missing}, its head does not`)
    }
    expect(loose).toEqual([])
  })
})
