import { closeSync, fsyncSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { now } from './clock.mjs'
import { median } from './stats.mjs'

const CLOCK_TICKS_PER_SECOND = 100

/** What a reader must know of the machine to judge a figure. */
export function machineFacts(directory) {
  return {
    cores: os.availableParallelism(),
    memoryGb: Math.round(os.totalmem() / 2 ** 30),
    system: `${os.type()} ${os.release().split('.').slice(0, 2).join('.')} ${os.arch()}`,
    node: process.versions.node,
    syncMs: syncMs(directory),
  }
}

/** How long the disk takes for 8 kB to be safe: the price of a commit. */
function syncMs(directory) {
  const file = openSync(path.join(directory, 'sync'), 'w')
  const block = Buffer.alloc(8192, 1)
  const times = []
  for (let i = 0; i < 100; i++) {
    const startedAt = now()
    writeSync(file, block)
    fsyncSync(file)
    times.push(now() - startedAt)
  }
  closeSync(file)
  return median(times)
}

/** CPU time in ms of a process, its children, and its children that have ended. Linux only. */
export function cpuMsOfTree(pid) {
  if (process.platform !== 'linux') return undefined
  let ticks = 0
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const fields = statOf(name)
    if (fields === undefined) continue
    const isRoot = Number(name) === pid
    // Fields after the command's name, from the state on: ppid, …, utime, stime, cutime, cstime.
    if (!isRoot && Number(fields[1]) !== pid) continue
    ticks += Number(fields[11]) + Number(fields[12])
    if (isRoot) ticks += Number(fields[13]) + Number(fields[14])
  }
  return (ticks / CLOCK_TICKS_PER_SECOND) * 1000
}

/** CPU time in ms that all programs together have used since the machine started. */
export function cpuMsOfMachine() {
  return os
    .cpus()
    .reduce((sum, { times: { user, nice, sys, irq } }) => sum + user + nice + sys + irq, 0)
}

function statOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return undefined // it has ended
  }
}
