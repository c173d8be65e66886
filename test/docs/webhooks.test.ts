import { randomBytes } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import ts from 'typescript'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runStatements } from '../../src/database/console.ts'
import { signedHeaders } from '../../src/relay/webhook/signature.ts'
import { cli } from '../cli/cli.ts'
import { ownDatabase } from '../support/server.ts'
import { root, snippetsOf } from './snippets.ts'

const snippets = snippetsOf('docs/guides/webhooks.md')
const codeOf = (language: string) =>
  snippets.filter((each) => each.language === language).map(({ code }) => code)

const database = ownDatabase()

describe('the guide of webhooks', () => {
  it('has SQL that runs, in its order', async () => {
    for (const code of codeOf('sql')) await runStatements(database.url, code)
    const [row] = await database.db.query('select * from fencepost.webhooks')
    expect(row).toMatchObject({ name: 'billing', max_attempts: 8, max_running: 5, paused: false })
    await database.db.query(`select fencepost.drop_webhook('billing')`)
  })

  it('has commands that run', async () => {
    const lines = codeOf('sh').flatMap((code) => code.trim().split('\n'))
    for (const line of lines) {
      const words = [...line.matchAll(/'([^']*)'|\S+/g)].map(([word, quoted]) => quoted ?? word)
      const outcome = await cli(words.slice(1), {
        env: { DATABASE_URL: database.url },
        asked: Promise.resolve('SIGTERM'),
      })
      expect(outcome, line).toMatchObject({ code: 0, err: '' })
    }
  })

  it('shows a receiver that takes what we sign, and nothing else', async () => {
    const secret = `whsec_${randomBytes(32).toString('base64')}`
    const { outputText } = ts.transpileModule(codeOf('ts')[0] ?? '', {
      compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
    })
    // below the root, so that it finds the packages
    const file = path.join(root, `test/docs/receiver-${process.pid}.mjs`)
    writeFileSync(file, outputText)
    onTestFinished(() => rmSync(file, { force: true }))
    process.env.WEBHOOK_SECRET = secret
    onTestFinished(() => void delete process.env.WEBHOOK_SECRET)
    const { received } = (await import(/* @vite-ignore */ pathToFileURL(file).href)) as {
      received(body: string, headers: Readonly<Record<string, string>>): unknown
    }

    const body = '{"type": "job.completed"}'
    const headers = signedHeaders({ id: '3-981', body }, [secret], new Date())
    expect(received(body, headers)).toEqual({ type: 'job.completed' })
    expect(() => received(`${body} `, headers)).toThrow()
    for (const name of Object.keys(headers)) expect(codeOf('http')[0]).toContain(`${name}: `)
  })
})
