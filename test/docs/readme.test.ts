import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import ts from 'typescript'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { endpoints } from '../../src/api/endpoints.ts'
import { problemCatalogue } from '../../src/api/problem.ts'
import { serveApi } from '../../src/api/server.ts'
import { runStatements } from '../../src/database/console.ts'
import { required } from '../support/required.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { linksOf, root, snippetsOf } from './snippets.ts'

const README = 'README.md'
const snippets = snippetsOf(README)
const of = (language: string) => snippets.filter((each) => each.language === language)

let database: TestDatabase
beforeEach(async () => {
  database = await testDatabase()
})
afterEach(() => database.drop())

const directory = path.join(root, 'test/artifacts/readme')
mkdirSync(directory, { recursive: true })
afterAll(() => rmSync(directory, { recursive: true, force: true }))

describe('the SQL of the README', () => {
  it('runs as it stands, on an empty engine', async () => {
    const [snippet] = of('sql')
    const results = await runStatements(database.url, snippet?.code ?? '')
    const rowsOf = (column: string) => results.find(({ columns }) => columns.includes(column))?.rows
    expect(rowsOf('token')).toEqual([
      [1, 1, { to: 'ada@example.org' }],
      [2, 1, { to: 'bob@example.org' }],
    ])
    expect(rowsOf('directive')).toEqual([])
    expect(rowsOf('fail')).toEqual([['dead_letter']])
    expect(rowsOf('last_error')).toContainEqual([2, 'email.send', 'dead_letter', 1, 'mailbox full'])
    expect(rowsOf('release')?.length).toBeGreaterThan(0)
    expect(rowsOf('final_error')).toEqual([[2, 'mailbox full']])
  })
})

describe('the workflow of the README', () => {
  it('is published and started', async () => {
    const [, snippet] = of('sql')
    const results = await runStatements(database.url, snippet?.code ?? '')
    expect(results.map(({ rows }) => rows)).toEqual([[[1]], [[1]]])
  })
})

describe('the TypeScript of the README', () => {
  const [snippet] = of('ts')
  const source = path.join(directory, 'readme.ts')
  const ending = `
await new Promise((resolve) => setTimeout(resolve, 100))
while ((await engine.jobs({ status: 'completed' })).length === 0) await new Promise((resolve) => setTimeout(resolve, 50))
await engine.close()
await sql.end()
`
  writeFileSync(source, (snippet?.code ?? '') + ending)

  it('has no type error', () => {
    const { config } = ts.readConfigFile(path.join(root, 'tsconfig.json'), ts.sys.readFile)
    const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
    const program = ts.createProgram([source], { ...options, noEmit: true })
    expect(program.getSourceFile(source)?.text).toContain('sendReceipt')
    const found = ts.getPreEmitDiagnostics(program).filter(({ file }) => file?.fileName === source)
    expect(
      found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')),
    ).toEqual([])
  })

  it('does what it says', async () => {
    await database.db.query(
      'create table orders (id int generated always as identity primary key, customer text, receipt_sent_to text)',
    )
    const { outputText } = ts.transpileModule((snippet?.code ?? '') + ending, {
      compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
    })
    const program = path.join(directory, 'readme.mjs')
    writeFileSync(program, outputText)
    const child = spawn(process.execPath, [program], {
      env: { ...process.env, DATABASE_URL: database.url },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    expect(await once(child, 'exit')).toEqual([0, null])
    const orders = await database.db.query('select receipt_sent_to from orders')
    expect(orders).toEqual([{ receipt_sent_to: 'ada@example.org' }])
    const jobs = await database.db.query('select status, result from fencepost.jobs')
    expect(jobs).toEqual([{ status: 'completed', result: { sent: true } }])
  })
})

describe('the commands of the README', () => {
  const [start, commands, requests] = of('sh')

  it('begin with the two that need nothing', () => {
    expect(snippets[0]).toBe(start)
    expect(start?.code.split('\n').map((line) => line.split('#')[0]?.trim())).toEqual([
      'npm start',
      'npm test',
      '',
    ])
  })

  it('run as they stand', async (context) => {
    required('bash', context)
    const bin = mkdtempSync(path.join(tmpdir(), 'fencepost-bin-'))
    writeFileSync(
      path.join(bin, 'npx'),
      `#!/bin/sh\nshift\nexec "${process.execPath}" "${path.join(root, 'dist/cli/main.js')}" "$@"\n`,
    )
    chmodSync(path.join(bin, 'npx'), 0o755)
    const { status, stdout, stderr } = spawnSync('bash', ['-e', '-c', commands?.code ?? ''], {
      env: {
        ...process.env,
        PATH: `${bin}:${process.env.PATH}`,
        DATABASE_URL: database.url,
      },
      encoding: 'utf8',
    })
    rmSync(bin, { recursive: true })
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(stdout).toContain('job 1 is cancelled')
  })

  it('ask the API as they stand', async (context) => {
    required('bash', context)
    if (spawnSync('curl', ['--version']).status !== 0) context.skip('curl is not installed')
    await using server = await serveApi({ db: database.db, port: 0 })
    const script = (requests?.code ?? '')
      .replaceAll('localhost:3773', `localhost:${server.port}`)
      .replaceAll('curl -s ', 'curl -sS --fail-with-body ')
    const child = spawn('bash', ['-e', '-c', script], { stdio: ['ignore', 'pipe', 'inherit'] })
    let out = ''
    child.stdout.setEncoding('utf8').on('data', (text) => {
      out += text
    })
    const [code] = await once(child, 'close')
    expect(code, out).toBe(0)
    expect(out).toContain('"created":true')
    expect(out).toContain('"paused":true')
    expect(out).toContain('"matched":0')
    expect(out).toContain('"jobs":[{"job_id":1')
  })
})

describe('what the README says', () => {
  it('links to files that exist', () => {
    const missing = linksOf(README).filter((file) => !existsSync(path.join(root, file)))
    expect(missing).toEqual([])
  })

  it('names the codes as they are', () => {
    const [, , table = ''] =
      /\| code \| HTTP \| \|\n(\|-+\|-+\|-+\|\n)((?:\|.*\n)+)/.exec(readmeText()) ?? []
    const rows = table
      .trim()
      .split('\n')
      .map((line) => line.split('|').map((cell) => cell.trim()))
    for (const [, code = '', status] of rows) {
      const entry = problemCatalogue.find((each) => code.startsWith(`\`${each.code}\``))
      expect(entry, code).toBeDefined()
      expect(Number(status)).toBe(entry?.status)
      if (code.includes(' ')) expect(code.split(' ')[1]).toBe(entry?.name)
    }
    expect(rows.length).toBeGreaterThan(9)
  })

  it('shows a problem as the API answers it', async () => {
    const [shown] = of('json')
    await using server = await serveApi({ db: database.db, port: 0 })
    const response = await fetch(`${server.url}/jobs`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"type": "x", "priority": 12}',
    })
    expect(await response.json()).toEqual(JSON.parse(shown?.code ?? ''))
  })

  it('names every route', () => {
    const text = readmeText()
      .replaceAll(':id', '{id}')
      .replaceAll(':type', '{type}')
      .replaceAll(':code', '{code}')
      .replaceAll(':name', '{name}')
      .replaceAll(':version', '{version}')
    for (const { path: route } of endpoints) {
      const last = route.split('/').findLast((part) => part !== '') ?? ''
      expect(text.includes(last.startsWith('{') ? `/${last}` : last), route).toBe(true)
    }
  })
})

function readmeText(): string {
  return ts.sys.readFile(path.join(root, README)) ?? ''
}
