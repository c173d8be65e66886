// `npm run bench` starts here: installs what the benchmarks need, then runs them on one Node for all.
// Node built-ins only, so that it can say what is missing.

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'

const here = path.dirname(fileURLToPath(import.meta.url))
const root = path.dirname(here)
/** What the strictest of the peers declares. */
const PEERS_NEED = [22, 18]

const prepared = spawnSync(process.execPath, [path.join(root, 'scripts/prepare.mjs')], {
  cwd: root,
  stdio: 'inherit',
})
if (prepared.status !== 0) process.exit(prepared.status ?? 1)

if (!installed()) install()
const node = nodeForAll()
const run = spawnSync(node, [path.join(here, 'main.mjs'), ...process.argv.slice(2)], {
  stdio: 'inherit',
  // Some peers log a line for each job unless they are told not to.
  env: { ...process.env, NO_LOG_SUCCESS: '1', NODE_ENV: 'production' },
})
process.exit(run.status ?? 1)

/** True when bench/node_modules holds every package of the lock file, in its version. */
function installed() {
  const present = readJson('node_modules/.package-lock.json')
  if (present === undefined) return false
  return Object.entries(readJson('package-lock.json').packages).every(
    ([place, wanted]) =>
      place === '' || wanted.optional || present.packages[place]?.version === wanted.version,
  )
}

function install() {
  say('Installing the peers (npm ci in bench/)…')
  const args = ['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error']
  const result = spawnSync('npm', args, {
    cwd: here,
    stdio: 'inherit',
    shell: process.platform === 'win32',
  })
  if (result.status !== 0) say('The peers could not be installed; npm says why above.')
}

/**
 * The Node that runs every system: the one in the npm package `node`, since peers want a newer one
 * than Fencepost does; else this one.
 */
function nodeForAll() {
  const carried = path.join(here, 'node_modules/node/bin/node')
  if (!existsSync(carried) && existsSync(path.dirname(path.dirname(carried)))) {
    // npm may have been told to run no install scripts; this one fetches the binary, through npm.
    spawnSync(process.execPath, ['installArchSpecificPackage.js'], {
      cwd: path.dirname(path.dirname(carried)),
      stdio: 'ignore',
    })
  }
  for (const candidate of [carried, `${carried}.exe`]) if (existsSync(candidate)) return candidate
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major < PEERS_NEED[0] || (major === PEERS_NEED[0] && minor < PEERS_NEED[1])) {
    say(`Peers declare Node ${PEERS_NEED.join('.')}; they run on Node ${process.versions.node}.`)
  }
  return process.execPath
}

function readJson(name) {
  const file = path.join(here, name)
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined
}

function say(text) {
  process.stderr.write(`${text}\n`)
}
