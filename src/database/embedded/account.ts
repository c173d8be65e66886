import { spawnSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { EmbeddedServerError } from './errors.ts'
import { USE_ANOTHER_SERVER } from './platform.ts'

/**
 * The operating system account that the server runs as. PostgreSQL refuses to run as root, so root
 * gives its rights up for it: `ids` are then what the process changes to.
 */
export interface Account {
  readonly name: string
  readonly ids?: { readonly uid: number; readonly gid: number }
}

interface PasswordEntry {
  name: string
  uid: number
  gid: number
}

/**
 * Chooses the account: our own one, unless we are root. Then the owner of the first existing one of
 * `clusters`, the person who called sudo, an account named `fencepost`, or `nobody`. (Not `postgres`:
 * a server of the machine often trusts that account.)
 */
export function chooseAccount(clusters: readonly string[]): Account {
  if (process.getuid?.() !== 0) return { name: 'this account' }
  const entries = passwordEntries()
  const owners = clusters.map((cluster) => statSync(cluster, { throwIfNoEntry: false })?.uid)
  const owner = owners.find((uid) => uid !== undefined)
  const chosen =
    entries.find(({ uid }) => uid === owner) ??
    entries.find(({ uid }) => uid === Number(process.env.SUDO_UID || 0)) ??
    entries.find(({ name }) => name === 'fencepost') ??
    entries.find(({ name }) => name === 'nobody')
  if (chosen === undefined) {
    throw new EmbeddedServerError(
      `PostgreSQL does not run as root and this machine has no other account (nobody) for it; run this as an ordinary user, or ${USE_ANOTHER_SERVER}.`,
    )
  }
  const account = { name: chosen.name, ids: { uid: chosen.uid, gid: chosen.gid } }
  const trial = spawnSync('/bin/sh', ['-c', ':'], { ...account.ids, cwd: '/' })
  if (trial.error) {
    throw new EmbeddedServerError(
      `PostgreSQL does not run as root and this root may not become another account (${(trial.error as NodeJS.ErrnoException).code}); run this as an ordinary user, or ${USE_ANOTHER_SERVER}.`,
    )
  }
  return account
}

/** True when the account can read and enter (or run) a file or directory, tried as that account. */
export function canReach(file: string, account: Account): boolean {
  if (account.ids === undefined) return true
  const command = 'test -r "$0" && test -x "$0"'
  return spawnSync('/bin/sh', ['-c', command, file], { ...account.ids, cwd: '/' }).status === 0
}

function passwordEntries(): PasswordEntry[] {
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter(({ name, uid, gid }) => name !== '' && uid !== 0 && Number.isInteger(uid + gid))
}
