import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const script = fileURLToPath(new URL('../../scripts/prepare.mjs', import.meta.url))

function prepare(nodeVersion = process.versions.node) {
  const pretend = `data:text/javascript,Object.defineProperty(process, 'versions', { value: { node: '${nodeVersion}' } })`
  return spawnSync(process.execPath, ['--import', pretend, script], { encoding: 'utf8' })
}

it('an old Node is told so in one sentence', () => {
  const { status, stderr } = prepare('20.18.3')
  expect(status).toBe(1)
  expect(stderr).toMatch(
    /^Fencepost needs Node 20\.19 or newer, and this is Node 20\.18\.3 \(.*\)\.\n$/,
  )
})

it('a checkout that is ready is left alone without a word', () => {
  const { status, stdout, stderr } = prepare()
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '', stderr: '' })
})
