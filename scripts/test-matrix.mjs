// npm run test:matrix [-- vitest's arguments]: the suite on each supported major version of PostgreSQL, and on
// each newer Node. FENCEPOST_MATRIX=15,node24 runs some of them. The packages are those of test/matrix.

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import process from 'node:process'
import { root } from './includes.mjs'

const matrix = path.join(root, 'test/matrix')
const vitest = path.join(root, 'node_modules/vitest/vitest.mjs')
const lanes = ['15', '16', '17', '18', 'node22', 'node24']
const chosen = (process.env.FENCEPOST_MATRIX ?? lanes.join(',')).split(',')
const unknown = chosen.filter((lane) => !lanes.includes(lane))

if (unknown.length > 0) {
  process.stderr.write(`FENCEPOST_MATRIX knows ${lanes.join(', ')}, not ${unknown.join(', ')}\n`)
  process.exit(1)
}
if (!existsSync(path.join(matrix, 'node_modules/.package-lock.json'))) {
  const npm = ['ci', '--no-audit', '--no-fund', '--loglevel=error']
  const { status } = spawnSync('npm', npm, {
    cwd: matrix,
    stdio: 'inherit',
    shell: process.platform === 'win32',
  })
  if (status !== 0) process.exit(status ?? 1)
}

const results = chosen.map((lane) => [lane, run(lane)])
for (const [lane, result] of results) {
  process.stdout.write(`${/^\d/.test(lane) ? 'PostgreSQL' : ''} ${lane}: ${result}\n`.trimStart())
}
process.exitCode = results.every(([, result]) => result !== 'failed') ? 0 : 1

function run(lane) {
  const major = /^node(\d+)$/.exec(lane)?.[1]
  const node = major === undefined ? process.execPath : nodeOf(major)
  if (node === undefined)
    return `skipped: no Node ${major} for ${process.platform}-${process.arch} here`
  const env = {
    ...process.env,
    ...(major === undefined && lane !== '18' ? { FENCEPOST_TEST_PG: lane } : {}),
  }
  process.stdout.write(`\n── ${lane}\n`)
  const { status } = spawnSync(node, [vitest, 'run', ...process.argv.slice(2)], {
    cwd: root,
    stdio: 'inherit',
    env,
  })
  return status === 0 ? 'passed' : 'failed'
}

function nodeOf(major) {
  const file = path.join(
    matrix,
    `node_modules/node-${major}-${process.platform}-${process.arch}/bin/node`,
  )
  return existsSync(file) ? file : undefined
}
