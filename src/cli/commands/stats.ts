import { setTimeout as sleep } from 'node:timers/promises'
import type { Queryable } from '../../database/database.ts'
import { type StatsRow, stats } from '../../database/engine.ts'
import type { Command, Invocation } from '../command.ts'
import { withDatabase } from '../database.ts'
import { tell } from '../failure.ts'
import { table } from '../table.ts'
import type { Terminal } from '../terminal.ts'

/** How often the live table is drawn, in ms. */
const PERIOD = 1_000

export const statsCommand: Command = {
  help: `Depths, the age of the oldest ready job, and rates over the last one to two minutes. In a terminal the table is
drawn each second until Ctrl-C.`,
  options: {
    type: { value: '<type>', help: 'Only this type.' },
    once: { help: 'Draw it once.' },
  },
  async run(invocation) {
    const { terminal, json } = invocation
    const live = terminal.interactive && !json && !invocation.has('once')
    return withDatabase(invocation, async (db) => {
      if (live) return watch(invocation, db)
      const rows = await stats(db, invocation.text('type'))
      invocation.answer(rows, () => statsTable(rows, terminal))
      return undefined
    })
  },
}

async function watch(invocation: Invocation, db: Queryable): Promise<undefined> {
  const { terminal } = invocation
  const stop = new AbortController()
  terminal.untilAsked().then(() => stop.abort())
  let drawn = 0
  while (!stop.signal.aborted) {
    try {
      const rows = await stats(db, invocation.text('type'), { signal: stop.signal })
      const text = `${statsTable(rows, terminal)}\n${terminal.style.dim(`${new Date().toLocaleTimeString()} · Ctrl-C ends it`)}\n`
      terminal.write(`${drawn === 0 ? '' : `\u001b[${drawn}A\u001b[J`}${text}`)
      drawn = text.split('\n').length - 1
    } catch (error) {
      if (stop.signal.aborted) return undefined
      tell(error, terminal, false)
      drawn = 0
    }
    await sleep(PERIOD, undefined, { signal: stop.signal }).catch(() => {})
  }
  return undefined
}

/** How types stand, as a table. */
export function statsTable(rows: readonly StatsRow[], terminal: Terminal): string {
  if (rows.length === 0) return 'No types yet: nobody has enqueued or declared one.'
  return table(
    rows.map((row) => ({
      type: row.paused ? `${row.type} (paused)` : row.type,
      ready: row.ready,
      delayed: row.delayed,
      running: row.running,
      waiting: row.waiting,
      dead: row.dead_letter,
      oldest: row.oldest_ready_seconds === null ? '' : age(row.oldest_ready_seconds),
      'in/s': rate(row.enqueued_per_second),
      'done/s': rate(row.completed_per_second),
      'failed/s': rate(row.failed_per_second),
      workers: row.workers,
    })),
    terminal,
  )
}

/** A time in words: 0.4 s, 12 s, 3 min, 5 h, 2 d. */
export function age(seconds: number): string {
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`
  return `${Math.round(seconds / 86_400)} d`
}

function rate(perSecond: number): number {
  return perSecond < 10 ? Math.round(perSecond * 10) / 10 : Math.round(perSecond)
}
