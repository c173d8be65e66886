import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runStatements } from '../../src/database/console.ts'
import { required } from '../support/required.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { runTypeScript, shellEnv, shown } from './guides.ts'
import { linksOf, root, snippetsOf } from './snippets.ts'

const GUIDE = 'docs/guides/workflows.md'
const snippets = snippetsOf(GUIDE)
const directory = path.join(root, 'test/artifacts/guide')

/** What the SQL and the commands work on, one after the other. */
let database: TestDatabase
/** What the TypeScript works on. */
let elsewhere: TestDatabase
beforeAll(async () => {
  mkdirSync(directory, { recursive: true })
  database = await testDatabase()
  elsewhere = await testDatabase()
})
afterAll(async () => {
  rmSync(directory, { recursive: true, force: true })
  await database.drop()
  await elsewhere.drop()
})

/** A statement, and what the guide says of its first row, or of its refusal. */
interface Statement {
  readonly text: string
  readonly says: string | undefined
}

/** The statements of a snippet: each ends its line, but for a comment that says what comes of it. */
function statementsOf(code: string): Statement[] {
  return [...code.matchAll(/([\s\S]+?;)(?: -- (.*))?\n/g)].map(([, text = '', says]) => ({
    text: text.trim(),
    says,
  }))
}

async function firstRow(statement: string): Promise<string> {
  try {
    const [result] = await runStatements(database.url, statement)
    return (result?.rows[0] ?? []).map(shown).join(' | ')
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    return `${code}: ${message}`
  }
}

describe('the guide', () => {
  for (const { language, code, line } of snippets) {
    if (language === 'sql') {
      it(`line ${line}: SQL gives what it says`, async () => {
        for (const { text, says } of statementsOf(code)) {
          const row = await firstRow(text)
          if (says === undefined) expect(row, text).not.toMatch(/^[A-Z0-9]{5}: /)
          else expect(row, text).toBe(says)
        }
      })
    } else if (language === 'ts') {
      it(`line ${line}: TypeScript has no type error and runs`, () => {
        const { status, stdout, stderr } = runTypeScript(code, directory, elsewhere.url)
        expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
        expect(stdout).toContain('6\n')
      })
    } else {
      it(`line ${line}: commands run`, (context) => {
        required('bash', context)
        const { status, stderr, stdout } = shell(code)
        expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
        expect(stdout).toContain('run 1 completed')
      })
    }
  }

  it('links to files that exist', () => {
    const missing = linksOf(GUIDE).filter(
      (file) => !existsSync(path.join(root, path.dirname(GUIDE), file)),
    )
    expect(missing).toEqual([])
  })
})

/** Runs commands in which `npx fencepost` is this build. */
function shell(code: string) {
  const env = shellEnv(directory, database.url)
  return spawnSync('bash', ['-e', '-c', code], { env, encoding: 'utf8' })
}
