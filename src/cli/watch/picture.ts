import type { ListedTask, RunRow } from '../../database/engine.ts'
import { age } from '../age.ts'
import { painted, type Span } from '../spans.ts'
import { clip } from '../table.ts'
import type { Style, Terminal } from '../terminal.ts'
import { graphLines, marked } from './graph.ts'
import type { Snapshot } from './snapshot.ts'

const PAINTS: Readonly<Record<RunRow['status'], keyof Style>> = {
  running: 'cyan',
  waiting: 'yellow',
  paused: 'yellow',
  completed: 'green',
  failed: 'red',
  cancelled: 'dim',
  compensating: 'yellow',
  compensated: 'yellow',
}

/** A run as a picture that fits the screen: a headline, the graph, and what needs an eye. */
export function picture(
  snapshot: Snapshot,
  terminal: Pick<Terminal, 'style' | 'width' | 'height'>,
  now = new Date(),
): string {
  const { run, tasks, partial } = snapshot
  const room = (terminal.height ?? 50) - 3
  const graph = partial ? [] : graphLines(tasks, terminal)
  const notes = notesOf(snapshot, terminal)
  const shown = graph.length + 1 + Math.min(notes.length, 3) <= room ? graph : []
  const rest = room - (shown.length === 0 ? 0 : shown.length + 1)
  return [
    headline(run, terminal, now),
    '',
    ...shown,
    ...(shown.length > 0 && notes.length > 0 ? [''] : []),
    ...notes.slice(0, Math.max(0, rest)),
  ].join('\n')
}

/** What a run is, how it stands, how far it is and how long it took. */
function headline(
  run: RunRow,
  { style, width: columns = 80 }: Pick<Terminal, 'style' | 'width'>,
  now: Date,
): string {
  const seconds = ((run.finished_at ?? now).getTime() - run.created_at.getTime()) / 1000
  const spans: Span[] = [
    [`run ${run.id}`, 'bold'],
    [` · ${run.workflow} ${run.version} · `],
    [run.status, PAINTS[run.status]],
    [` · ${run.ended_tasks} of ${run.total_tasks} tasks ended well`],
    [run.failed_tasks === 0 ? '' : `, ${run.failed_tasks} failed`, 'red'],
    [` · ${age(seconds)}`],
    [run.reason === null ? '' : ` · ${run.reason}`, 'dim'],
  ]
  return painted(spans, columns, style)
}

/** What somebody may want to know or do, a line each; the worst first. */
function notesOf(
  { tasks, approvals }: Snapshot,
  { style, width: columns = 80 }: Pick<Terminal, 'style' | 'width'>,
): string[] {
  const lines = tasks.flatMap((task) => {
    const text = noteOf(task)
    return text === undefined ? [] : [{ task, text: clip(text, columns - 4) }]
  })
  lines.sort((a, b) => urgency(b.task) - urgency(a.task))
  return [
    ...lines.map(({ task, text }) => `  ${marked(task, text, style)}`),
    ...approvals.map(({ id, task, reason }) => {
      const text = `? ${task}${reason ? `: ${reason}` : ''} · fencepost approval approve ${id}`
      return `  ${style.yellow(clip(text, columns - 4))}`
    }),
  ]
}

function noteOf(task: ListedTask): string | undefined {
  const { name, status, kind, error, attempts, compensation } = task
  if (compensation !== null && compensation !== 'completed') return `${name} is being undone`
  switch (status) {
    case 'failed':
      return `${name}: ${(error ?? 'failed').split('\n')[0]}`
    case 'running':
    case 'queued':
      return attempts > 1 ? `${name}: attempt ${attempts}` : undefined
    case 'waiting':
      return waitOf(task, kind)
    default:
      return undefined
  }
}

function waitOf(
  { name, due_at, items_open, items_failed, child_run_id }: ListedTask,
  kind: ListedTask['kind'],
): string | undefined {
  const until = due_at === null ? '' : ` until ${due_at.toISOString()}`
  switch (kind) {
    case 'timer':
      return `${name} waits${until}`
    case 'signal':
      return `${name} waits for its signal${until}`
    case 'map':
      return `${name}: ${items_open} items open${items_failed ? `, ${items_failed} failed` : ''}`
    case 'workflow':
      return `${name} is run ${child_run_id}`
    default:
      return undefined // approvals have lines of their own
  }
}

function urgency({ status }: ListedTask): number {
  return status === 'failed' ? 2 : status === 'running' ? 1 : 0
}
