import { spawnSync } from 'node:child_process'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type Account, canReach, chooseAccount } from './account.ts'
import { type Binaries, usableBinaries } from './binaries.ts'
import { EmbeddedServerError } from './errors.ts'

/** The superuser of an embedded cluster. (A role `fencepost` would have our schema in its search path.) */
export const SUPERUSER = 'postgres'
/** The database of an embedded cluster that is for use. */
export const DATABASE = 'fencepost'

/** A directory of data on disk, and what runs it. */
export interface Cluster {
  /** The directory that holds the cluster, its log and its state. */
  readonly home: string
  /** PostgreSQL's own data directory, one a major version. */
  readonly directory: string
  readonly password: string
  readonly account: Account
  readonly binaries: Binaries
  /** The server's version, as `18.4`. */
  readonly version: string
}

/**
 * Finds the cluster of a data directory, or makes it. `log` hears what takes time or surprises;
 * `programs` is a directory of PostgreSQL's programs to use instead of the installed ones.
 */
export function openCluster(
  dataDir: string,
  log: (line: string) => void,
  programs?: string,
): Cluster {
  const wanted = path.resolve(dataDir)
  const open = openPlace(wanted)
  makeDirectory(wanted)
  const account = chooseAccount([wanted, open].map((home) => path.join(home, 'postgres')))
  const reachable = canReach(wanted, account)
  const home = reachable ? wanted : open
  if (!reachable) {
    makeOpenDirectory(home)
    log(
      `${wanted} is closed to the account ${account.name} that PostgreSQL runs as: the data is in ${home}`,
    )
  }
  // Other accounts pass through these; the cluster within is closed to them.
  const parent = path.join(home, 'postgres')
  if (!existsSync(parent)) {
    makeDirectory(parent)
    give(parent, account)
  }
  const binaries = usableBinaries(account, home, programs)
  const version = versionOf(binaries, account)
  const directory = path.join(parent, version.split('.')[0] ?? version)
  if (!existsSync(directory)) {
    log(`Creating a PostgreSQL ${version} database in ${directory}`)
    create(directory, binaries, account)
  }
  const password = readPassword(directory)
  return { home, directory, password, account, binaries, version }
}

/** The environment of the server's programs: no setting of the caller's leaks into them. */
export function serverEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(PG|LC_|LANG)/.test(name) && name !== 'NODE_OPTIONS',
  )
  return { ...Object.fromEntries(kept), LC_ALL: 'C' }
}

/** Runs initdb beside the directory and renames the result: a cluster is there whole or not at all. */
function create(directory: string, binaries: Binaries, account: Account): void {
  const unfinished = `${directory}.${randomUUID()}`
  const passwordFile = `${unfinished}.password`
  const password = randomBytes(18).toString('base64url')
  try {
    mkdirSync(unfinished, { mode: 0o700 })
    give(unfinished, account)
    writeFileSync(passwordFile, password, { mode: 0o600 })
    give(passwordFile, account)
    const result = spawnSync(
      binaries.initdb,
      [
        `--pgdata=${unfinished}`,
        `--username=${SUPERUSER}`,
        `--pwfile=${passwordFile}`,
        '--auth=scram-sha-256',
        '--encoding=UTF8',
        '--locale=C',
        '--no-instructions',
      ],
      { ...account.ids, cwd: path.dirname(directory), env: serverEnvironment(), encoding: 'utf8' },
    )
    if (result.error || result.status !== 0) {
      const reason = result.error?.message ?? lastLine(result.stderr)
      throw new EmbeddedServerError(`initdb could not create ${directory}: ${reason}`)
    }
    renameSync(passwordFile, path.join(unfinished, PASSWORD_FILE))
    renameSync(unfinished, directory)
  } catch (error) {
    // Another process may have made the same cluster in the meantime: then that one counts.
    if (!existsSync(directory)) throw error
  } finally {
    rmSync(unfinished, { recursive: true, force: true })
    rmSync(passwordFile, { force: true })
  }
}

const PASSWORD_FILE = 'fencepost.password'

function readPassword(directory: string): string {
  try {
    return readFileSync(path.join(directory, PASSWORD_FILE), 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new EmbeddedServerError(
      code === 'EACCES'
        ? `The database in ${directory} belongs to another account, perhaps because root made it: start as that account again, or name another directory in FENCEPOST_DATA_DIR.`
        : `The database in ${directory} cannot be used: its file ${PASSWORD_FILE} is missing (${code}).`,
    )
  }
}

/** Where root keeps what lies in a directory that the server's account cannot reach. */
function openPlace(wanted: string): string {
  const name = `${path.basename(path.dirname(wanted))}-${createHash('sha256').update(wanted).digest('hex').slice(0, 8)}`
  const base = isWritable('/var/lib') ? '/var/lib' : tmpdir()
  return path.join(base, 'fencepost', name)
}

/** Makes a directory below a public one, and refuses one that somebody else has laid there. */
function makeOpenDirectory(directory: string): void {
  for (const each of [path.dirname(directory), directory]) {
    makeDirectory(each)
    const found = lstatSync(each)
    if (!found.isDirectory() || found.uid !== process.getuid?.()) {
      throw new EmbeddedServerError(
        `${each} belongs to another account, so no data is kept there: remove it, or name another directory in FENCEPOST_DATA_DIR.`,
      )
    }
  }
}

function makeDirectory(directory: string): void {
  try {
    // Whatever the umask: the server's account passes through it.
    if (mkdirSync(directory, { recursive: true }) !== undefined) chmodSync(directory, 0o755)
    accessSync(directory, constants.W_OK)
  } catch (error) {
    throw new EmbeddedServerError(
      `The data directory ${directory} cannot be written (${(error as NodeJS.ErrnoException).code}): name another one in FENCEPOST_DATA_DIR.`,
    )
  }
}

function isWritable(directory: string): boolean {
  try {
    accessSync(directory, constants.W_OK)
    return true
  } catch {
    return false
  }
}

function give(file: string, account: Account): void {
  if (account.ids) chownSync(file, account.ids.uid, account.ids.gid)
}

function versionOf(binaries: Binaries, account: Account): string {
  const { stdout, stderr, error } = spawnSync(binaries.postgres, ['--version'], {
    ...account.ids,
    cwd: '/',
    env: serverEnvironment(),
    encoding: 'utf8',
  })
  const version = /\d+(\.\d+)?/.exec(stdout ?? '')?.[0]
  if (version === undefined) {
    throw new EmbeddedServerError(
      `${binaries.postgres} does not run here: ${error?.message ?? lastLine(stderr)}`,
    )
  }
  return version
}

function lastLine(text: string): string {
  return text.trim().split('\n').pop() ?? ''
}
