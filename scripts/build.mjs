// Compiles src/ into dist/ and examples/ into dist/examples/, and writes dist/fencepost.sql, the whole schema as one
// script for psql.

import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import process from 'node:process'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const SOURCES = [
  'src',
  'examples',
  'migrations/committed',
  'scripts/build.mjs',
  'tsconfig.json',
  'tsconfig.build.json',
  'tsconfig.examples.json',
]
/** Written last, so that its age is the age of the build. */
const STAMP = path.join(root, 'dist/fencepost.sql')

/** True when a source, or a directory of sources, is newer than the build. */
export function stale() {
  if (!existsSync(STAMP)) return true
  const built = statSync(STAMP).mtimeMs
  return SOURCES.some((name) => newest(path.join(root, name)) > built)
}

/** Builds; throws when the compiler finds an error. */
export async function build() {
  const tsc = path.join(root, 'node_modules/typescript/bin/tsc')
  const started = Date.now() / 1000
  for (const project of ['tsconfig.build.json', 'tsconfig.examples.json']) {
    const result = spawnSync(process.execPath, [tsc, '-p', project], {
      cwd: root,
      stdio: 'inherit',
    })
    if (result.status !== 0) throw new Error('The build failed; the compiler says why above.')
  }
  const { fullScript } = await import(
    `${pathToFileURL(path.join(root, 'dist/database/migrations.js')).href}?${started}`
  )
  writeFileSync(STAMP, await fullScript())
}

function newest(file) {
  const stat = statSync(file)
  if (!stat.isDirectory()) return stat.mtimeMs
  return readdirSync(file).reduce(
    (latest, name) => Math.max(latest, newest(path.join(file, name))),
    stat.mtimeMs,
  )
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    await build()
  } catch (error) {
    process.stderr.write(`${error.message}\n`)
    process.exit(1)
  }
}
