// An ETL as jobs: 53,940 diamonds from a public data set (the CSV that npm's @observablehq/sample-datasets
// ships) into a table of the same database.
//
//   diamonds.import   makes the table and one job for each chunk of the file
//   diamonds.chunk    validates, transforms and loads one chunk; a row that does not fit becomes a job
//   diamonds.row      tries such a row alone: its dead letter says what is wrong with it
//
// Each handler writes through one transaction, which its ctx.complete() is part of: a chunk is loaded and
// its job completed in the same commit, or neither. Kill the worker whenever you like.

import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { defineJob, Fencepost, PermanentError } from 'fencepost'
import postgres from 'postgres'
import { z } from 'zod'
import { parseCsv } from './csv.ts'
import { type Diamond, diamondOf } from './diamond.ts'

const url = process.env.DATABASE_URL ?? ''
const engine = new Fencepost({ url })
const sql = postgres(url, { max: 5, onnotice: () => {} })

/** A pause in each chunk, in ms, so that a person can watch. Default none. */
const PAUSE = Number(process.env.DIAMONDS_PAUSE ?? 0)

let rows: readonly Record<string, string>[] | undefined

/** The file, read once a process. */
function file(): readonly Record<string, string>[] {
  const path = fileURLToPath(import.meta.resolve('@observablehq/sample-datasets/diamonds.csv'))
  rows ??= parseCsv(readFileSync(path, 'utf8'))
  return rows
}

export const importDiamonds = defineJob({
  type: 'diamonds.import',
  payload: z.object({ chunk: z.number().int().positive() }),
  keepFinished: '3650d', // and with it the idempotency key under which the file is imported once
  run: async ({ chunk }, ctx) => {
    const { length } = file()
    const chunks = Array.from({ length: Math.ceil(length / chunk) }, (_, n) => ({
      from: n * chunk,
      to: Math.min(length, (n + 1) * chunk),
    }))
    await sql.begin(async (tx) => {
      await tx`create schema if not exists example`
      await tx`create table if not exists example.diamond (
        row           int primary key,
        carat         numeric not null,
        cut           text not null,
        color         text not null,
        clarity       text not null,
        price_usd     int not null,
        usd_per_carat int not null,
        volume_mm3    int not null,
        loaded_by     bigint not null)`
      await engine.enqueueBatch(loadChunk, chunks, { tx })
      await ctx.complete(tx, { rows: length, chunks: chunks.length })
    })
  },
})

export const loadChunk = defineJob({
  type: 'diamonds.chunk',
  payload: z.object({ from: z.number().int(), to: z.number().int() }),
  run: async ({ from, to }, ctx) => {
    const outcomes = file()
      .slice(from, to)
      .map((fields, at) => ({ fields, row: from + at, ...diamondOf(from + at, fields) }))
    const good = outcomes.flatMap((each) => ('diamond' in each ? [each.diamond] : []))
    const bad = outcomes.flatMap((each) =>
      'reason' in each ? [{ row: each.row, fields: each.fields }] : [],
    )
    await pause(PAUSE, undefined, { signal: ctx.signal })
    await sql.begin(async (tx) => {
      await insert(tx, good, ctx.jobId)
      await engine.enqueueBatch(loadRow, bad, { tx })
      await ctx.complete(tx, { loaded: good.length, refused: bad.length })
    })
  },
})

export const loadRow = defineJob({
  type: 'diamonds.row',
  payload: z.object({ row: z.number().int(), fields: z.record(z.string(), z.string()) }),
  run: async ({ row, fields }, ctx) => {
    const outcome = diamondOf(row, fields)
    if ('reason' in outcome) throw new PermanentError(`row ${row}: ${outcome.reason}`)
    await sql.begin(async (tx) => {
      await insert(tx, [outcome.diamond], ctx.jobId)
      await ctx.complete(tx, { loaded: 1 })
    })
  },
})

async function insert(tx: postgres.TransactionSql, diamonds: readonly Diamond[], job: number) {
  if (diamonds.length === 0) return
  const loaded = diamonds.map((diamond) => ({ ...diamond, loaded_by: job }))
  await tx`insert into example.diamond ${tx(loaded)}`
}
