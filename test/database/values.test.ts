import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { json } from '../../src/database/database.ts'
import { decodeArray } from '../../src/database/decode.ts'
import { encode } from '../../src/database/encode.ts'
import { ownDatabase } from '../support/server.ts'

const database = ownDatabase({ migrated: false })
const db = () => database.db

/** What comes back of a value that went there as a type. */
async function trip(value: unknown, type: string): Promise<unknown> {
  const rows = await db().query<{ value: unknown }>(`select $1::${type} as value`, [value])
  return rows[0]?.value
}

const odd = [
  '',
  ' ',
  'null',
  'NULL',
  '{}',
  '{a,b}',
  '"',
  '\\',
  '\\"',
  'a,b',
  "it's",
  'ü😀',
  '\n\t',
  '\\x00',
]

describe('values survive the trip', () => {
  it.each<[type: string, value: unknown]>([
    ['int4', 2147483647],
    ['int8', 2 ** 31 + 1],
    ['int8', Number.MAX_SAFE_INTEGER],
    ['int8', -5_000_000_000],
    ['int8', 9223372036854775807n],
    ['float8', 0.1],
    ['float8', Number.NaN],
    ['float8', -Infinity],
    ['numeric', '12345678901234567890.123456789'],
    ['boolean', true],
    ['boolean', false],
    ['text', null],
    ['text', 'ü😀 \\ " \' {}'],
    ['bytea', Buffer.from([0, 1, 255])],
    ['timestamptz', new Date('2026-11-30T12:34:56.789Z')],
    ['timestamptz', new Date('0044-03-15T00:00:00Z')],
    ['timestamptz', new Date(-62_198_755_200_000)],
    ['timestamptz', new Date(8.64e15)],
    ['timestamptz', new Date(-8.64e15)],
    ['date', '2026-02-28'],
    ['interval', '1 day 02:00:00'],
    ['jsonb', null],
    ['int4[]', [1, 2, 3]],
    ['int8[]', [2 ** 31, null, -(2 ** 40)]],
    ['int8[]', []],
    ['boolean[]', [true, null, false]],
    ['text[]', odd],
    ['text[]', [null, 'x', null]],
    ['text[]', []],
    ['text[]', [odd, odd.toReversed()]],
    ['float8[]', [0.5, -1e300]],
    ['timestamptz[]', [new Date('2026-11-30T12:34:56.789Z'), null]],
    ['bytea[]', [Buffer.from('{"\\'), Buffer.alloc(0)]],
    ['uuid[]', ['6ecd8c99-4036-403d-bf84-cf8400f67836']],
  ])('%s %o', async (type, value) => {
    expect(await trip(value, type)).toEqual(value)
  })

  it.each<[value: unknown]>([
    [{ to: 'ada@example.org', nested: [1, { deep: null }], empty: {} }],
    ['a string'],
    ['null'],
    [null],
    [42],
    [false],
    [[]],
    [{ 'ü😀': '\u2028 \\ " \\u0000' }],
  ])('jsonb %o', async (value) => {
    expect(await trip(json(value), 'jsonb')).toEqual(value)
    expect(await trip([json(value), json({ a: value })], 'jsonb[]')).toEqual([value, { a: value }])
    expect(await trip(JSON.stringify(value), 'jsonb')).toEqual(value)
  })

  it('undefined is null', async () => {
    expect(await trip(undefined, 'text')).toBe(null)
  })

  it('the server infers the type of a parameter from where it stands', async () => {
    const rows = await db().query(
      'select jsonb_typeof($1) as json, cardinality(array_remove($2, 2)) as rest, abs($3::int8 - $4) as difference',
      [json('x'), [1, 2, 3], 5, 2 ** 40],
    )
    expect(rows).toEqual([{ json: 'string', rest: 2, difference: 2 ** 40 - 5 }])
  })

  it('a session reads and writes dates alike whatever the database prefers', async () => {
    await db().query(`do $$ begin execute format(
      'alter database %I set datestyle = ''German, DMY''', current_database()); end $$`)
    await db().query(`do $$ begin execute format(
      'alter database %I set timezone = ''Asia/Kathmandu''', current_database()); end $$`)
    const rows = await db().query(
      "select '2026-01-02 03:04:05.57+05:45'::timestamptz as at, now()::text ~ '\\+00$' as utc",
    )
    expect(rows).toEqual([{ at: new Date('2026-01-01T21:19:05.570Z'), utc: true }])
  })

  it('any strings in an array, by the thousand', async () => {
    const text = fc.string({ unit: 'binary' }).filter((each) => !each.includes('\0'))
    const arrays = fc.array(fc.oneof(fc.constant(null), text), { maxLength: 5 })
    const samples = fc.sample(arrays, 1000)
    expect(samples.map((each) => decodeArray(encode(each, 'it') ?? '', String))).toEqual(samples)
    const columns = samples.map((_, index) => `$${index + 1}::text[]`)
    const rows = await db().query(
      `select jsonb_build_array(${columns.slice(0, 100)}) as arrays`,
      samples.slice(0, 100),
    )
    expect(rows).toEqual([{ arrays: samples.slice(0, 100) }])
    const [row] = await db().query(
      `select ${columns.map((column, index) => `${column} as c${index}`)}`,
      samples,
    )
    expect(Object.values(row ?? {})).toEqual(samples)
  })
})

describe('what cannot be sent is refused before it is sent, and the place is named', () => {
  it.each<[value: unknown, message: RegExp]>([
    ['a\0b', /^parameter \$1 contains a NUL character \(\\u0000\) at character 2$/],
    ['a\ud800', /^parameter \$1 contains half of a surrogate pair at character 2$/],
    [['x', 'a\0'], /^parameter \$1\[1\] contains a NUL/],
    [json({ to: ['x', { name: 'a\0' }] }), /^parameter \$1 at \$\.to\[1\]\.name contains a NUL/],
    [json({ 'a key': '\udc00' }), /^parameter \$1 at \$\["a key"\] contains half/],
    [json({ 'k\0': 1 }), /^parameter \$1, the key at \$\["k\\u0000"\], contains a NUL/],
    [[json('ok'), json(['\0'])], /^parameter \$1\[1\] at \$\[0\] contains a NUL/],
    [json(1n), /^parameter \$1 is not JSON: .*BigInt/],
    [json(undefined), /^parameter \$1 is not JSON: undefined/],
    [json(() => 1), /^parameter \$1 is not JSON: function/],
    [{ a: 1 }, /^parameter \$1 is an object \(Object\)/],
    [Symbol('s'), /^parameter \$1 is a symbol/],
    [new Date(Number.NaN), /^parameter \$1 is an invalid date/],
  ])('%s', async (value, message) => {
    const failed = expect(db().query('select $1', [value])).rejects
    await failed.toMatchObject({ code: 'JE003', message: expect.stringMatching(message) })
    const inside = db().transaction((tx) => tx.query('select $1', [value]))
    await expect(inside).rejects.toMatchObject({ code: 'JE003' })
  })

  it('what only looks like it passes', async () => {
    const value = { text: '\\u0000 \\ud800', pair: '😀' }
    expect(await trip(json(value), 'jsonb')).toEqual(value)
  })
})
