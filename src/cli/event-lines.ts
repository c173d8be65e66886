import type { OutboxEvent } from '../database/engine.ts'
import { jsonText } from '../json-text.ts'
import { cell, clip } from './table.ts'
import type { Terminal } from './terminal.ts'

/** An event on one line, for people. */
export function eventLine(event: OutboxEvent, { style, width }: Terminal): string {
  const at = style.dim(event.at.toISOString().slice(11, 23))
  const colour = KINDS[event.kind.split('.')[1] ?? ''] ?? 'cyan'
  const words = [
    event.type ?? event.workflow,
    event.job_id === null ? null : `job ${event.job_id}`,
    event.run_id === null ? null : `run ${event.run_id}`,
    event.attempt === null ? null : `attempt ${event.attempt}`,
    event.worker,
    event.actor === null ? null : `by ${event.actor}`,
    event.data === null ? null : jsonText(event.data),
  ]
  const rest = words
    .filter((word) => word !== null && word !== undefined)
    .map(cell)
    .join('  ')
  const room = width === undefined ? undefined : Math.max(10, width - 36)
  return `${at}  ${style[colour](event.kind.padEnd(20))}  ${clip(rest, room)}`
}

/** Colours by what happened, where it is more than usual. */
const KINDS: Readonly<Record<string, 'green' | 'red' | 'yellow'>> = {
  completed: 'green',
  compensated: 'yellow',
  dead_lettered: 'red',
  failed: 'red',
  lost: 'red',
  expired: 'red',
  retry_scheduled: 'yellow',
  cancelled: 'yellow',
  discarded: 'yellow',
}
