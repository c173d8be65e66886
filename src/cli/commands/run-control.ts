import type { Queryable } from '../../database/database.ts'
import {
  cancelRun,
  explainTask,
  migrateRun,
  pauseRun,
  restartRun,
  resumeRun,
  retryRun,
  signalRun,
  type TaskReasonRow,
} from '../../database/engine.ts'
import { wholeNumber } from '../arguments.ts'
import type { Command, Invocation } from '../command.ts'
import { withDatabase } from '../database.ts'
import { table } from '../table.ts'
import type { Terminal } from '../terminal.ts'

const reason = { value: '<text>', help: 'Why; kept with the run and its event.' }

/** A command that does one thing with a run. */
function control(
  more: Pick<Command, 'help' | 'options'>,
  status: string,
  move: (db: Queryable, id: number, invocation: Invocation) => Promise<void>,
): Command {
  return {
    usage: '<id>',
    takes: [1, 1],
    ...more,
    async run(invocation) {
      const id = invocation.id(0, 'the run')
      await withDatabase(invocation, (db) => move(db, id, invocation))
      invocation.answer({ id }, () => `run ${id} ${status}`)
      return undefined
    },
  }
}

export const runPause = control(
  {
    help: 'Holds a run and its child runs: what runs now finishes, nothing new starts.',
    options: { reason },
  },
  'is held',
  (db, id, invocation) => pauseRun(db, id, invocation.text('reason')),
)

export const runResume = control({ help: 'Lets a held run go on.' }, 'goes on', (db, id) =>
  resumeRun(db, id),
)

export const runCancel = control(
  {
    help: 'Cancels a run and its child runs; handlers that run are told to stop.',
    options: { reason },
  },
  'is cancelled',
  (db, id, invocation) => cancelRun(db, id, invocation.text('reason')),
)

export const runRetry: Command = {
  usage: '<id>',
  help: 'Tries the failed tasks of a run again.',
  takes: [1, 1],
  async run(invocation) {
    const id = invocation.id(0, 'the run')
    const replayed = await withDatabase(invocation, (db) => retryRun(db, id))
    invocation.answer({ id, replayed }, () => `run ${id}: ${replayed} tried again`)
    return undefined
  },
}

export const runRestart: Command = {
  usage: '<id>',
  help: `Begins a new run that takes over the outputs of what completed in the old one, and prints its id. The old run stays
as it is.`,
  takes: [1, 1],
  options: {
    from: { value: '<task>', help: 'Do this task and what comes after it again.' },
  },
  async run(invocation) {
    const id = invocation.id(0, 'the run')
    const started = await withDatabase(invocation, (db) =>
      restartRun(db, id, invocation.text('from')),
    )
    invocation.answer({ id: started, restarted_from: id }, () => String(started))
    return undefined
  },
}

export const runSignal: Command = {
  usage: '<id> <signal> [payload]',
  help: `Sends a signal: the task that waits for it takes it, or the first that will. The payload is JSON; - reads it from
standard input.`,
  takes: [2, 3],
  async run(invocation) {
    const id = invocation.id(0, 'the run')
    const [, name = '', payload] = invocation.positionals
    const value =
      payload === undefined ? undefined : await invocation.parseJson('the payload', payload)
    const signal = await withDatabase(invocation, (db) => signalRun(db, id, name, value))
    invocation.answer({ id: signal, run_id: id, name }, () => `signal ${signal} is stored`)
    return undefined
  },
}

export const runMigrate: Command = {
  usage: '<id> <version>',
  help: `Moves a run to another version of its workflow and shows the tasks that differ. Tasks that have begun must exist
there with the same kind and type.`,
  takes: [2, 2],
  options: { 'dry-run': { help: 'Only show what would change.' } },
  async run(invocation) {
    const id = invocation.id(0, 'the run')
    const version = wholeNumber('<version>', invocation.positionals[1] ?? '')
    const dryRun = invocation.has('dry-run')
    const changes = await withDatabase(invocation, (db) => migrateRun(db, id, version, dryRun))
    invocation.answer({ id, version, dry_run: dryRun, changes }, () =>
      [
        `run ${id} ${dryRun ? 'would take' : 'takes'} version ${version}`,
        ...(changes.length === 0 ? [] : [table(changes as never, invocation.terminal)]),
      ].join('\n'),
    )
    return undefined
  },
}

export const runExplain: Command = {
  usage: '<id> <task>',
  help: 'Each reason why a task is not running now, and what would let it go on.',
  takes: [2, 2],
  async run(invocation) {
    const id = invocation.id(0, 'the run')
    const [, task = ''] = invocation.positionals
    const reasons = await withDatabase(invocation, (db) => explainTask(db, id, task))
    invocation.answer(reasons, () =>
      reasons.length === 0
        ? `${task} is on its way`
        : reasons.map((each) => paragraph(each, invocation.terminal)).join('\n\n'),
    )
    return undefined
  },
}

function paragraph({ reason: why, detail, release }: TaskReasonRow, { style }: Terminal): string {
  const remedy = release === null ? '' : `\n  ${style.dim('Released by:')} ${release}`
  return `${style.bold(why)}\n  ${detail}${remedy}`
}
