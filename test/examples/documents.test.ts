import { cp, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { RunFailedError } from '../../src/index.ts'
import { type Example, startExample } from './example.ts'

type Documents = typeof import('../../examples/documents/workflow.ts')

const DOCS = fileURLToPath(new URL('../../docs', import.meta.url))

let example: Example<Documents>
beforeAll(async () => {
  example = await startExample(() => import('../../examples/documents/workflow.ts'))
})
afterAll(() => example.stop())

/** How the directory looks from outside: what the summary has to agree with. */
async function filesOf(directory: string): Promise<string[]> {
  const files = await readdir(directory, { recursive: true })
  return files.filter((file) => file.endsWith('.md')).sort()
}

it('indexes the documents of this repository', async () => {
  const files = await filesOf(DOCS)
  const run = await example.engine.start(example.workflow, { directory: DOCS })
  const { summarise } = await run.result()
  expect(summarise).toMatchObject({ documents: files.length })
  expect(summarise?.words).toBeGreaterThan(5_000)
  const kinds = Object.values(summarise?.byKind ?? {}).reduce((sum, count) => sum + count, 0)
  expect(kinds).toBe(files.length)
  expect(summarise?.frequent).toContain('that')

  const [workflows] = await example.db.query(
    `select title, kind from library.document where file = 'guides/workflows.md'`,
  )
  expect(workflows).toEqual({ title: 'Workflows', kind: 'guide' })
  const found = await example.db.query<{ file: string }>(
    `select file from library.word where word = 'watermark' order by count desc limit 1`,
  )
  expect(found).toEqual([{ file: 'decisions/watermark.md' }])
})

it('does again what could not be read, once it is mended, and that alone', async () => {
  const directory = await mkdtemp(path.join(tmpdir(), 'documents-'))
  try {
    await cp(path.join(DOCS, 'decisions'), directory, { recursive: true })
    const file = path.join(directory, 'torn.md')
    await writeFile(file, Buffer.from([0x23, 0x20, 0xff]))
    const run = await example.engine.start(example.workflow, { directory })
    const error: RunFailedError = await run.result().catch((reason) => reason)
    expect(error.failures[0]).toMatchObject({ task: 'extract' })

    await writeFile(file, '# Mended\n\nA word.\n')
    expect(await run.retry()).toBe(1)
    const { summarise } = await run.result()
    expect(summarise?.documents).toBe((await filesOf(directory)).length)
    const [torn] = await example.db.query(
      `select title, kind, content from library.document where file = 'torn.md'`,
    )
    expect(torn).toEqual({ title: 'Mended', kind: 'prose', content: ['mended', 'a', 'word'] })
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
})
