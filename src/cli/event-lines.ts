import type { EventFilter, OutboxEvent } from '../database/engine.ts'
import type { OptionSpec } from './arguments.ts'
import type { Invocation } from './command.ts'
import { cell, clip } from './table.ts'
import type { Terminal } from './terminal.ts'

/** Which events are meant. */
export const eventFilterOptions: Readonly<Record<string, OptionSpec>> = {
  kinds: { value: '<kind,…>', help: 'Of these kinds; run.* means all that begin so.' },
  types: { value: '<type,…>', help: 'Of jobs of these types.' },
  tenant: { value: '<name>', help: 'Of this tenant.' },
}

/** What {@link eventFilterOptions} say. */
export function eventFilter(invocation: Invocation): EventFilter {
  const words = (option: string) => {
    const given = invocation.texts(option).flatMap((text) => text.split(','))
    return given.length === 0 ? {} : { [option]: given }
  }
  const tenant = invocation.text('tenant')
  return { ...words('kinds'), ...words('types'), ...(tenant === undefined ? {} : { tenant }) }
}

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
    event.data === null ? null : JSON.stringify(event.data),
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
