import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { MockActivityEnvironment } from '@temporalio/testing'
import ts from 'typescript'
import { afterAll, describe, expect, it } from 'vitest'
import type { Fencepost } from '../../src/index.ts'
import type { JobActivity } from '../../src/temporal/index.ts'
import { linksOf, root, snippetsOf } from '../docs/snippets.ts'
import { ownDatabase } from '../support/server.ts'
import { workOff } from '../support/work.ts'

const GUIDE = 'docs/guides/temporal.md'
const code = snippetsOf(GUIDE).find(({ language }) => language === 'ts')?.code ?? ''
const directory = path.join(root, 'test/artifacts/temporal')
const database = ownDatabase()

mkdirSync(directory, { recursive: true })
afterAll(() => rmSync(directory, { recursive: true, force: true }))

/** What the snippet exports. */
interface Snippet {
  readonly engine: Fencepost
  readonly activities: { readonly printInvoice: JobActivity<{ order: number }, unknown> }
}

describe('the guide to Temporal', () => {
  it('shows TypeScript without a type error', () => {
    const source = path.join(directory, 'guide.ts')
    writeFileSync(source, code)
    const { config } = ts.readConfigFile(path.join(root, 'tsconfig.json'), ts.sys.readFile)
    const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
    const program = ts.createProgram([source], { ...options, noEmit: true })
    expect(program.getSourceFile(source)?.text).toContain('jobActivity')
    const found = ts.getPreEmitDiagnostics(program).filter(({ file }) => file?.fileName === source)
    expect(
      found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')),
    ).toEqual([])
  })

  it('shows an activity that does what it says', async () => {
    process.env.DATABASE_URL = database.url
    const { outputText } = ts.transpileModule(code, {
      compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
    })
    const file = path.join(directory, 'guide.mjs')
    writeFileSync(file, outputText)
    const { engine, activities }: Snippet = await import(/* @vite-ignore */ file)
    const activity = new MockActivityEnvironment()
    const result = activity.run(activities.printInvoice, { order: 7 }, { tenant: 'acme' })
    await expect.poll(() => engine.jobs({ status: 'pending' })).toHaveLength(1)
    const done = await workOff(database.db, { 'invoice.print': () => ({ pages: 2 }) })
    expect(done).toEqual(['invoice.print'])
    expect(await result).toEqual({ pages: 2 })
    expect(await engine.jobs()).toMatchObject([{ priority: 7, tenant: 'acme' }])
    await engine.close()
  })

  it('links to files that exist', () => {
    const missing = linksOf(GUIDE).filter(
      (file) => !existsSync(path.join(root, path.dirname(GUIDE), file)),
    )
    expect(missing).toEqual([])
  })
})
