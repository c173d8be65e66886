// The diamonds of ../etl as a workflow: loaded in chunks, then averaged by three of their qualities side by
// side, and checked at the end. A run replaces what an earlier one has left.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { defineJob, PermanentError } from 'fencepost'
import { z } from 'zod'
import { completing } from '../database.ts'
import { parseCsv } from '../etl/csv.ts'
import { diamondOf } from '../etl/diamond.ts'

let rows: readonly Record<string, string>[] | undefined

/** The file, read once a process. */
function file(): readonly Record<string, string>[] {
  const path = fileURLToPath(import.meta.resolve('@observablehq/sample-datasets/diamonds.csv'))
  rows ??= parseCsv(readFileSync(path, 'utf8'))
  return rows
}

const Chunk = z.object({ from: z.int(), to: z.int() })

export const split = defineJob({
  type: 'gems.split',
  payload: z.object({ chunk: z.int().positive() }),
  run: ({ chunk }, ctx) =>
    completing(ctx, async (tx) => {
      await tx`create schema if not exists gems`
      await tx`create table if not exists gems.diamond (
        row           int primary key,
        cut           text not null,
        color         text not null,
        clarity       text not null,
        carat         numeric not null,
        price_usd     int not null)`
      await tx`create table if not exists gems.refused (row int primary key, reason text not null)`
      await tx`create table if not exists gems.average (
        quality       text,
        value         text,
        diamonds      int not null,
        usd_per_carat int not null,
        primary key (quality, value))`
      await tx`truncate gems.diamond, gems.refused, gems.average`
      const { length } = file()
      const chunks = Array.from({ length: Math.ceil(length / chunk) }, (_, at) => ({
        from: at * chunk,
        to: Math.min(length, (at + 1) * chunk),
      }))
      return { rows: length, chunks }
    }),
})

export const load = defineJob({
  type: 'gems.load',
  payload: Chunk,
  run: ({ from, to }, ctx) => {
    const outcomes = file()
      .slice(from, to)
      .map((fields, at) => ({ row: from + at, ...diamondOf(from + at, fields) }))
    const diamonds = outcomes.flatMap((each) => ('diamond' in each ? [each.diamond] : []))
    const refused = outcomes.flatMap((each) => ('reason' in each ? [each] : []))
    return completing(ctx, async (tx) => {
      const columns = ['row', 'cut', 'color', 'clarity', 'carat', 'price_usd'] as const
      if (diamonds.length > 0) await tx`insert into gems.diamond ${tx(diamonds, ...columns)}`
      if (refused.length > 0) await tx`insert into gems.refused ${tx(refused, 'row', 'reason')}`
      return { loaded: diamonds.length, refused: refused.length }
    })
  },
})

export const average = defineJob({
  type: 'gems.average',
  payload: z.object({ quality: z.enum(['cut', 'color', 'clarity']) }),
  run: ({ quality }, ctx) =>
    completing(ctx, async (tx) => {
      const averages = await tx<{ value: string; diamonds: number }[]>`
        insert into gems.average (quality, value, diamonds, usd_per_carat)
        select ${quality}, ${tx(quality)}, count(*), round(sum(price_usd) / sum(carat))
        from gems.diamond group by ${tx(quality)} returning value, diamonds`
      return {
        values: averages.length,
        diamonds: averages.reduce((sum, each) => sum + each.diamonds, 0),
      }
    }),
})

const Averaged = z.object({ values: z.int(), diamonds: z.int() })

/** No row may be lost on the way: each is loaded or refused, and each that is loaded is in every average. */
export const check = defineJob({
  type: 'gems.check',
  payload: z.object({
    rows: z.int(),
    chunks: z.array(z.object({ loaded: z.int(), refused: z.int() })),
    averages: z.record(z.string(), Averaged),
  }),
  run: ({ rows, chunks, averages }) => {
    const loaded = chunks.reduce((sum, chunk) => sum + chunk.loaded, 0)
    const refused = chunks.reduce((sum, chunk) => sum + chunk.refused, 0)
    if (loaded + refused !== rows) {
      throw new PermanentError(`${rows} rows: ${loaded} loaded and ${refused} refused`)
    }
    for (const [quality, { diamonds }] of Object.entries(averages)) {
      if (diamonds !== loaded) throw new PermanentError(`by ${quality}: ${diamonds} of ${loaded}`)
    }
    return { rows, loaded, refused }
  },
})
