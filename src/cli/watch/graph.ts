import type { ListedTask, TaskStatus } from '../../database/engine.ts'
import { width } from '../table.ts'
import type { Style, Terminal } from '../terminal.ts'

/** What the eye looks for: a mark and a colour for each state. */
const LOOKS: Readonly<Record<TaskStatus, readonly [mark: string, paint: keyof Style]>> = {
  pending: ['·', 'dim'],
  queued: ['○', 'cyan'],
  running: ['▶', 'cyan'],
  waiting: ['◷', 'yellow'],
  completed: ['✔', 'green'],
  failed: ['✘', 'red'],
  skipped: ['↷', 'dim'],
  cancelled: ['–', 'dim'],
}

/** The mark of a task that was undone, or is about to be. */
const UNDONE = '↶'

/** Marks a text as a task's state. */
export function marked(
  { status, compensation }: Pick<ListedTask, 'status' | 'compensation'>,
  text: string,
  style: Style,
): string {
  const [mark, paint] = LOOKS[compensation ?? status]
  return style[paint](`${compensation === null ? mark : UNDONE} ${text}`)
}

/**
 * The tasks of a graph by level: those that wait for nothing, then each below the lowest that it waits
 * for. They are given parents before children.
 */
export function levelsOf<Task extends Pick<ListedTask, 'name' | 'after'>>(
  tasks: readonly Task[],
): Task[][] {
  const levels: Task[][] = []
  const levelOf = new Map<string, number>()
  for (const task of tasks) {
    const level = Math.max(0, ...task.after.map((parent) => (levelOf.get(parent) ?? -1) + 1))
    levelOf.set(task.name, level)
    levels[level] ??= []
    levels[level].push(task)
  }
  return levels
}

/** A graph in lines: a level after the other, an arrow between them. */
export function graphLines(
  tasks: readonly ListedTask[],
  { style, width: columns = 80 }: Pick<Terminal, 'style' | 'width'>,
): string[] {
  const arrow = `  ${style.dim('↓')}`
  return levelsOf(tasks).flatMap((level, index) => {
    const lines = wrapped(level.map(labelled), columns - 4)
    const drawn = lines.map(
      (line) => `  ${line.map(([task, text]) => marked(task, text, style)).join('   ')}`,
    )
    return index === 0 ? drawn : [arrow, ...drawn]
  })
}

type Labelled = readonly [task: ListedTask, text: string]

/** A task's name, and how far it is where it has parts. */
function labelled(task: ListedTask): Labelled {
  const { name, items, items_open } = task
  const isMap = items !== null && items_open !== null
  return [task, isMap ? `${name} ${items - items_open}/${items}` : name]
}

/** The tasks of a level in lines that are no wider than the screen. */
function wrapped(tasks: readonly Labelled[], columns: number): Labelled[][] {
  const lines: Labelled[][] = []
  let used = Number.POSITIVE_INFINITY
  for (const task of tasks) {
    const space = width(task[1]) + 5
    if (used + space > columns) {
      lines.push([])
      used = 0
    }
    lines.at(-1)?.push(task)
    used += space
  }
  return lines
}
