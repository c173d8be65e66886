import { mkdtempSync, rmSync, statfsSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const TMPFS = 0x01021994

/** A new directory on a real disk: where fsync costs nothing, a benchmark of queues says nothing. */
export function scratchDirectory() {
  const preferred = os.tmpdir()
  const inMemory = process.platform === 'linux' && statfsSync(preferred).type === TMPFS
  const parent = inMemory ? fileURLToPath(new URL('../', import.meta.url)) : preferred
  const directory = mkdtempSync(path.join(parent, inMemory ? '.scratch-' : 'fencepost-bench-'))
  return { directory, remove: () => rmSync(directory, { recursive: true, force: true }) }
}
