import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

const app = `
import { defineJob, defineWorkflow, Fencepost } from 'fencepost'
import { jobActivity } from 'fencepost/temporal'

const job = defineJob({ type: 'report', run: async (_payload, ctx) => ctx.jobId })
const flow = defineWorkflow('reports').task('report', { type: job })
const engine = new Fencepost({ url: 'postgresql://127.0.0.1:1/none' })
await engine.start(flow, {})
const activity = jobActivity(engine, job)
export { activity }
`

it('the declarations need nothing of a strict project that checks them too', {
  timeout: 120_000,
}, () => {
  const project = mkdtempSync(path.join(tmpdir(), 'fencepost-declarations-'))
  onTestFinished(() => rmSync(project, { recursive: true }))
  mkdirSync(path.join(project, 'node_modules'))
  symlinkSync(root, path.join(project, 'node_modules/fencepost'))
  writeFileSync(path.join(project, 'package.json'), '{"type": "module"}')
  writeFileSync(path.join(project, 'app.ts'), app)
  const compilerOptions = {
    target: 'es2022',
    module: 'nodenext',
    strict: true,
    skipLibCheck: false,
    noEmit: true,
    types: [],
  }
  const tsconfig = { compilerOptions, files: ['app.ts'] }
  writeFileSync(path.join(project, 'tsconfig.json'), JSON.stringify(tsconfig))
  const tsc = path.join(root, 'node_modules/typescript/bin/tsc')
  const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', project], { encoding: 'utf8' })
  expect({ status, stdout }).toEqual({ status: 0, stdout: '' })
})
