// Runs before `npm start` and `npm test`: makes a fresh clone ready, and costs nothing on a ready one. With --tests also
// what only tests need, which is large and stands apart.
// Node built-ins only, in syntax that an old Node can read, so that it can say what is wrong.

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import process from 'node:process'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const NEEDED = [20, 19]

try {
  checkNode()
  const places = ['', ...(process.argv.includes('--tests') ? ['test/temporal'] : [])]
  for (const place of places) if (!installed(place)) install(place)
  const { build, stale } = await import('./build.mjs')
  if (stale()) {
    say('Building…')
    await build()
  }
  await completeServers()
} catch (error) {
  process.stderr.write(`${error.message}\n`)
  process.exit(1)
}

function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major > NEEDED[0] || (major === NEEDED[0] && minor >= NEEDED[1])) return
  throw new Error(
    `Fencepost needs Node ${NEEDED.join('.')} or newer, and this is Node ${process.versions.node} (${process.execPath}).`,
  )
}

/** True when a place's node_modules holds every package of its lock file, in the lock file's version. */
function installed(place) {
  const present = readJson(place, 'node_modules/.package-lock.json')
  if (present === undefined) return false
  const wanted = readJson(place, 'package-lock.json')
  return Object.entries(wanted.packages).every(([name, entry]) => {
    if (name === '') return true
    const found = present.packages[name]
    if (found === undefined) return entry.optional === true || entry.devOptional === true
    return found.version === entry.version
  })
}

function install(place) {
  say(`Installing packages (npm ci)${place === '' ? '' : ` of ${place}`}…`)
  const cwd = path.join(root, place)
  // NODE_ENV=production would leave out the compiler and the embedded server.
  const args = [
    'ci',
    '--include=dev',
    '--include=optional',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
  ]
  const npm = process.env.npm_execpath
  const result =
    npm !== undefined && path.basename(npm) === 'npm-cli.js'
      ? spawnSync(process.execPath, [npm, ...args], { cwd, stdio: 'inherit' })
      : spawnSync('npm', args, {
          cwd,
          stdio: 'inherit',
          shell: process.platform === 'win32',
        })
  if (result.error) throw new Error(`npm could not be started: ${result.error.message}.`)
  if (result.status !== 0) {
    throw new Error('Installing the packages failed; npm says why above.')
  }
}

/**
 * Restores what the embedded server's install script would have made: npm blocks install scripts by
 * default, and an archive carries no symbolic links.
 */
async function completeServers() {
  const module = path.join(root, 'dist/database/embedded/binaries.js')
  const { completeBinaries, installedBinaries } = await import(pathToFileURL(module).href)
  const directory = installedBinaries()
  if (directory === undefined) return
  try {
    completeBinaries(directory)
  } catch (error) {
    // Someone else's node_modules: the server then completes a copy of its own.
    if (!['EACCES', 'EPERM', 'EROFS'].includes(error.code)) throw error
  }
}

function readJson(place, name) {
  const file = path.join(root, place, name)
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined
}

function say(text) {
  process.stderr.write(`${text}\n`)
}
