import type { ListedTask } from '../../database/engine.ts'
import type { Snapshot } from './snapshot.ts'

/** Something that a snapshot shows and the one before did not. */
export interface Change {
  readonly run: number
  /** Left out for the run itself. */
  readonly task?: string
  readonly status: string
  /** Of the run: how many tasks ended well, of how many, and how many failed. */
  readonly ended?: number
  readonly total?: number
  readonly failed?: number
  readonly attempts?: number
  readonly error?: string
}

/** Tells what has changed from snapshot to snapshot. The first tells how all stands. */
export class Changes {
  #run = ''
  readonly #tasks = new Map<number, string>()

  /** What is new since the last call; tasks first, as the run follows from them. */
  of({ run, tasks, partial }: Snapshot): Change[] {
    const changes: Change[] = tasks
      .filter((task) => this.#isNews(task))
      .map((task) => changeOf(run.id, task))
    const { id, status, ended_tasks: ended, failed_tasks: failed, total_tasks: total } = run
    const standing = partial ? `${status} ${ended} ${failed}` : status
    if (standing !== this.#run) changes.push({ run: id, status, ended, total, failed })
    this.#run = standing
    return changes
  }

  #isNews({ id, status, attempts, compensation }: ListedTask): boolean {
    const standing = `${status} ${attempts} ${compensation}`
    const before = this.#tasks.get(id)
    this.#tasks.set(id, standing)
    return before !== standing && (before !== undefined || status !== 'pending')
  }
}

function changeOf(
  run: number,
  { name, status, attempts, error, compensation }: ListedTask,
): Change {
  return {
    run,
    task: name,
    status: compensation === null ? status : `undoing: ${compensation}`,
    ...(attempts > 1 ? { attempts } : {}),
    ...(error === null ? {} : { error }),
  }
}

/** A change as a line for people. */
export function changeLine({
  run,
  task,
  status,
  ended,
  total,
  failed,
  attempts,
  error,
}: Change): string {
  if (task === undefined) {
    return `run ${run} ${status}: ${ended} of ${total} tasks ended well${failed ? `, ${failed} failed` : ''}`
  }
  const attempt = attempts === undefined ? '' : ` (attempt ${attempts})`
  return `  ${task} ${status}${attempt}${error === undefined ? '' : `: ${error.split('\n')[0]}`}`
}
