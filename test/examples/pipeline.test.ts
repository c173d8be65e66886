import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type RunFailedError, RunTimeoutError } from '../../src/index.ts'
import { type Example, startExample } from './example.ts'

type Pipeline = typeof import('../../examples/pipeline/workflow.ts')

const PACKAGE = fileURLToPath(new URL('../../examples/pipeline/package', import.meta.url))

let example: Example<Pipeline>
let directory: string
beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'pipeline-'))
  example = await startExample(() => import('../../examples/pipeline/workflow.ts'))
})
afterAll(async () => {
  await example.stop()
  await rm(directory, { recursive: true, force: true })
})

function input(name: string, source = PACKAGE) {
  const workspace = path.join(directory, 'work')
  return { source, workspace, target: path.join(directory, name) }
}

const deployed = (name: string) => readdir(path.join(directory, name)).catch(() => [])

it('lints, tests and builds a package, and deploys it once somebody approves', async () => {
  const run = await example.engine.start(example.workflow, input('approved'))
  const approval = await example.approval(run.id)
  await expect(run.result({ timeout: 0 })).rejects.toThrow(RunTimeoutError)
  expect(await deployed('approved')).toEqual([])
  const { lint, test } = await run.outputs()
  expect(lint?.report).toMatch(/Checked \d+ files/)
  expect(test?.report).toMatch(/pass 3\b/)

  await example.engine.approve(approval, { decidedBy: 'grace' })
  expect(await run.result()).toMatchObject({
    deploy: { version: '1.2.0', approvedBy: 'grace' },
  })
  expect(await deployed('approved')).toEqual(['roman-numbers-1.2.0.tgz'])
})

it('deploys nothing that was rejected', async () => {
  const run = await example.engine.start(example.workflow, input('rejected'))
  await example.engine.reject(await example.approval(run.id), { comment: 'not on a Friday' })
  await expect(run.result()).rejects.toThrow(/not on a Friday/)
  expect(await deployed('rejected')).toEqual([])
})

it('fails with what the tests said; mended, it begins anew', async () => {
  const source = path.join(directory, 'broken')
  await cp(PACKAGE, source, { recursive: true })
  const file = path.join(source, 'src/roman.js')
  const right = await readFile(file, 'utf8')
  await writeFile(file, right.replace('IV: 4', 'IIII: 4'))

  const run = await example.engine.start(example.workflow, input('mended', source))
  const error: RunFailedError = await run.result().catch((reason) => reason)
  expect(error.failures).toMatchObject([{ task: 'test' }])
  expect(error.failures[0]?.error).toMatch(/numbers are written as they were/)
  expect(await example.engine.approvals({ status: 'pending' })).toEqual([])

  await writeFile(file, right)
  // the other tasks of it may still be running
  await expect
    .poll(async () => (await run.status())?.finishedAt, { timeout: 60_000 })
    .toBeInstanceOf(Date)
  const again = await run.restart('checkout')
  await example.engine.approve(await example.approval(again.id))
  expect(await again.result()).toMatchObject({ deploy: { version: '1.2.0' } })
})

it('finds what the tests do not', async () => {
  const source = path.join(directory, 'untidy')
  await cp(PACKAGE, source, { recursive: true })
  await writeFile(path.join(source, 'src/more.js'), 'export const same = (a) => a === a\n')
  const run = await example.engine.start(example.workflow, input('untidy', source))
  const error: RunFailedError = await run.result().catch((reason) => reason)
  expect(error.failures).toMatchObject([{ task: 'lint' }])
  expect(error.failures[0]?.error).toMatch(/noSelfCompare/)
})
