import { type ChildProcess, spawn } from 'node:child_process'

/**
 * Waits for the end of its input, then asks the server to stop: unless the cluster's file names another process, or
 * the process is no PostgreSQL. By then its number may be somebody else's. Without the file, as after somebody removed
 * all data, the server runs on.
 */
const SCRIPT = `
read -r _
pid=$0
[ ! -e "$1/postmaster.pid" ] || read -r pid < "$1/postmaster.pid"
[ "$pid" = "$0" ] || exit 0
name=$(cat "/proc/$0/comm" 2>/dev/null || ps -o comm= -p "$0" 2>/dev/null)
case "$name" in *postgres*) kill -INT "$0" ;; esac
`

/**
 * A small process that ends a server when this process ends, in whatever way: then its input closes.
 *
 * @param pid the server's main process
 * @param cluster the directory of its data
 */
export function guardOf(pid: number, cluster: string): ChildProcess {
  const guard = spawn('/bin/sh', ['-c', SCRIPT, String(pid), cluster], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    cwd: '/',
  })
  guard.on('error', () => {}) // without it the server outlives us, and is adopted later
  guard.unref()
  const input = guard.stdin as (NodeJS.WritableStream & { unref?(): void }) | null
  input?.unref?.()
  return guard
}
