// The handler of the conformance tests, for workers that run JavaScript or a command: in bash's case
// `node handler.mjs` with the payload on its input. handler.py is the same in Python. A payload is
//   { do, key, times, message, value }
// and `do` says what happens: `echo` gives { echo: value } back; `fail` and `permanent` fail with
// `message`, `fail` only the first `times` times; `hold` waits for the file go-KEY, then gives the echo
// back. Whatever else comes is given back as { echo: payload }. The beginning and end of each run are
// lines of the ledger, a file in the directory that CONFORMANCE_DIR names.

import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const directory = process.env.CONFORMANCE_DIR
const ledger = path.join(directory, 'ledger')
const note = (what, key) => appendFileSync(ledger, `${what} ${key}\n`)

export async function handle(payload, signal) {
  const { do: what, key, times, message, value } = payload ?? {}
  if (what === undefined) return { echo: payload }
  note('begin', key)
  try {
    if (what === 'permanent') throw Object.assign(new Error(message), { permanent: true })
    if (what === 'fail' && runsOf(key) <= times) throw new Error(message)
    if (what === 'hold') await held(key, signal)
    return { echo: value }
  } finally {
    note('end', key)
  }
}

const runsOf = (key) => readFileSync(ledger, 'utf8').split(`begin ${key}\n`).length - 1

async function held(key, signal) {
  while (!existsSync(path.join(directory, `go-${key}`))) {
    signal?.throwIfAborted()
    if (!existsSync(directory)) process.exit(1) // the test is over
    await sleep(20)
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    const result = await handle(JSON.parse(readFileSync(0, 'utf8')))
    process.stdout.write(JSON.stringify(result))
  } catch (error) {
    process.stderr.write(error.message)
    process.exitCode = error.permanent ? 65 : 1
  }
}
