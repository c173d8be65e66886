// From files of text to a table of words. A file that is worked on again replaces what it left before.

import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { defineJob, PermanentError } from 'fencepost'
import { z } from 'zod'
import { completing } from '../database.ts'
import { classify, extract, Outline } from './document.ts'

export const list = defineJob({
  type: 'documents.list',
  payload: z.object({ directory: z.string() }),
  run: ({ directory }, ctx) =>
    completing(ctx, async (tx) => {
      await tx`create schema if not exists library`
      await tx`create table if not exists library.document (
        file    text primary key,
        title   text not null,
        kind    text,
        content text[] not null)`
      await tx`create table if not exists library.word (
        word  text,
        file  text references library.document,
        count int not null,
        primary key (word, file))`
      const files = await readdir(directory, { recursive: true })
      return files.filter((file) => file.endsWith('.md')).sort()
    }),
})

export const extractFile = defineJob({
  type: 'document.extract',
  payload: z.object({ directory: z.string(), file: z.string() }),
  run: async ({ directory, file }, ctx) => {
    const text = decoded(file, await readFile(path.join(directory, file), { signal: ctx.signal }))
    const { outline, words } = extract(file, text)
    return completing(ctx, async (tx) => {
      await tx`insert into library.document (file, title, content) values (${file}, ${outline.title}, ${words})
               on conflict (file) do update set title = excluded.title, content = excluded.content`
      return outline
    })
  },
})

export const classifyFile = defineJob({
  type: 'document.classify',
  payload: Outline,
  run: (outline, ctx) =>
    completing(ctx, async (tx) => {
      const kind = classify(outline)
      await tx`update library.document set kind = ${kind} where file = ${outline.file}`
      return kind
    }),
})

export const indexFile = defineJob({
  type: 'document.index',
  payload: z.object({ file: z.string() }),
  run: ({ file }, ctx) =>
    completing(ctx, async (tx) => {
      await tx`delete from library.word where file = ${file}`
      const { count } = await tx`
        insert into library.word (word, file, count)
        select w.word, d.file, count(*)
        from library.document d, unnest(d.content) as w(word)
        where d.file = ${file} and length(w.word) > 3
        group by w.word, d.file`
      return { words: count }
    }),
})

export const summarise = defineJob({
  type: 'documents.summarise',
  payload: z.object({ outlines: z.array(Outline), kinds: z.array(z.string()) }),
  run: async ({ outlines, kinds }, ctx) => {
    const byKind: Record<string, number> = {}
    for (const kind of kinds) byKind[kind] = (byKind[kind] ?? 0) + 1
    const words = outlines.reduce((sum, outline) => sum + outline.words, 0)
    return completing(ctx, async (tx) => {
      const frequent = await tx<{ word: string }[]>`
        select w.word from library.word w group by w.word order by sum(w.count) desc, w.word limit 10`
      const documents = outlines.length
      return { documents, words, byKind, frequent: frequent.map(({ word }) => word) }
    })
  },
})

function decoded(file: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new PermanentError(`${file} is not a text in UTF-8`)
  }
}
