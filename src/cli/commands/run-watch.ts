import { setTimeout as sleep } from 'node:timers/promises'
import { isConnectionError, type Queryable } from '../../database/database.ts'
import { jsonText } from '../../json-text.ts'
import type { Command, Invocation } from '../command.ts'
import { withDatabase } from '../database.ts'
import { exitCodes, tell } from '../failure.ts'
import { LiveText } from '../live-text.ts'
import { Changes, changeLine } from '../watch/changes.ts'
import { picture } from '../watch/picture.ts'
import { type Snapshot, snapshotOf } from '../watch/snapshot.ts'

/** How often a run is looked at, in ms. */
const PERIOD = 500

export const runWatch: Command = {
  usage: '<id>',
  help: `In a terminal the graph of the run, drawn until it ends; else a line for each change, with --json a JSON object.
Ends with 0 when the run completed, else with 1. Ctrl-C ends the watching, not the run.

  ✔ completed  ▶ running  ○ queued  ◷ waiting  · pending  ✘ failed  ↷ skipped  – cancelled  ↶ undone`,
  takes: [1, 1],
  async run(invocation) {
    const id = invocation.id(0, 'the run')
    const show = shower(invocation)
    return withDatabase(invocation, (db) => watch(invocation, db, id, show))
  },
}

/** Follows a run to its end; how it ended is the exit code. */
async function watch(
  { terminal, json }: Invocation,
  db: Queryable,
  id: number,
  show: (snapshot: Snapshot) => void,
): Promise<number> {
  const stop = new AbortController()
  const { signal } = stop
  terminal.untilAsked().then(() => stop.abort())
  while (!signal.aborted) {
    try {
      const snapshot = await snapshotOf(db, id, { signal })
      show(snapshot)
      const { status, finished_at } = snapshot.run
      if (finished_at !== null) return status === 'completed' ? exitCodes.done : exitCodes.failed
    } catch (error) {
      if (signal.aborted) break
      if (!isConnectionError(error)) throw error
      tell(error, terminal, json) // the server may come back
    }
    await sleep(PERIOD, undefined, { signal }).catch(() => {})
  }
  return exitCodes.failed
}

function shower({ terminal, json }: Invocation): (snapshot: Snapshot) => void {
  if (terminal.interactive && !json) {
    const screen = new LiveText(terminal)
    return (snapshot) => screen.draw(picture(snapshot, terminal))
  }
  const changes = new Changes()
  return (snapshot) => {
    const at = new Date().toISOString()
    for (const change of changes.of(snapshot)) {
      terminal.write(`${json ? jsonText({ at, ...change }) : `${at} ${changeLine(change)}`}\n`)
    }
  }
}
