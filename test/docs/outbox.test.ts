import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { serveApi } from '../../src/api/server.ts'
import { runStatements } from '../../src/database/console.ts'
import { moveClock } from '../support/clock.ts'
import { required } from '../support/required.ts'
import { ownDatabase } from '../support/server.ts'
import { runTypeScript, shellEnv, shown } from './guides.ts'
import { linksOf, root, snippetsOf } from './snippets.ts'

const GUIDE = 'docs/guides/outbox.md'
const directory = path.join(root, 'test/artifacts/outbox-guide')

/** What the SQL and the commands work on, one after the other. */
const database = ownDatabase()
/** What the TypeScript works on. */
const elsewhere = ownDatabase()
beforeAll(() => void mkdirSync(directory, { recursive: true }))
afterAll(() => rmSync(directory, { recursive: true, force: true }))
// readers look for what is new ten times a second; nobody waits here
beforeEach(() => moveClock(database.db, '1 second'))

/** What the guide says of the first row of each statement of a snippet, if it says anything. */
function sayings(code: string): (string | undefined)[] {
  return [...code.matchAll(/[\s\S]+?;(?: -- (.*))?\n/g)].map(([, says]) => says)
}

describe('the guide of the outbox', () => {
  for (const { language, code, line } of snippetsOf(GUIDE)) {
    if (language === 'sql') {
      it(`line ${line}: SQL gives what it says`, async () => {
        const results = await runStatements(database.url, code)
        const rows = results.map((result) => (result.rows[0] ?? []).map(shown).join(' | '))
        const said = sayings(code)
        expect(rows).toHaveLength(said.length)
        for (const [index, says] of said.entries()) if (says) expect(rows[index]).toBe(says)
      })
    } else if (language === 'ts') {
      it(`line ${line}: TypeScript has no type error and runs`, () => {
        const { status, stdout, stderr } = runTypeScript(code, directory, elsewhere.url)
        expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
        expect(stdout).toMatch(code.includes('consume(') ? /count: 1/ : /Z job\.enqueued invoice/)
      })
    } else if (language === 'sh') {
      it(`line ${line}: commands run`, async (context) => {
        required('bash', context)
        if (spawnSync('curl', ['--version']).status !== 0) context.skip('curl is not installed')
        const { code: status, out } = await shell(code)
        expect(status, out).toBe(0)
        if (code.includes('curl')) expect(out).toContain('"moved":true')
        else expect(out).toMatch(/1 event will be read again\n.*"kind":"job\.enqueued"/s)
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

/** Runs commands in which `npx fencepost` is this build, and localhost:3773 an API of the database. */
async function shell(code: string): Promise<{ code: number | null; out: string }> {
  await using server = await serveApi({ db: database.db, port: 0 })
  const script = code
    .replaceAll('localhost:3773', `localhost:${server.port}`)
    .replaceAll('curl -s ', 'curl -sS --fail-with-body ')
  const child = spawn('bash', ['-e', '-o', 'pipefail', '-c', script], {
    cwd: directory,
    env: shellEnv(directory, database.url),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let out = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      out += text
    })
  }
  const [status] = await once(child, 'close')
  return { code: status, out }
}
