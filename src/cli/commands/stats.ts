import { setTimeout as sleep } from 'node:timers/promises'
import type { Queryable } from '../../database/database.ts'
import { type StatsRow, stats } from '../../database/engine.ts'
import { age } from '../age.ts'
import type { Command, Invocation } from '../command.ts'
import { withDatabase } from '../database.ts'
import { tell } from '../failure.ts'
import { LiveText } from '../live-text.ts'
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
  const screen = new LiveText(terminal)
  while (!stop.signal.aborted) {
    try {
      const rows = await stats(db, invocation.text('type'), { signal: stop.signal })
      const text = `${statsTable(rows, terminal)}\n${terminal.style.dim(`${new Date().toLocaleTimeString()} · Ctrl-C ends it`)}`
      screen.draw(text)
    } catch (error) {
      if (stop.signal.aborted) return undefined
      tell(error, terminal, false)
      screen.keep()
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

function rate(perSecond: number): number {
  return perSecond < 10 ? Math.round(perSecond * 10) / 10 : Math.round(perSecond)
}
