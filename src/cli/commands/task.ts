import { replayTask, requestApproval } from '../../database/engine.ts'
import type { Command } from '../command.ts'
import { withDatabase } from '../database.ts'

export const taskReplay: Command = {
  usage: '<id>',
  help: 'Its run goes on when it completes. For a map, its failed items are tried again.',
  takes: [1, 1],
  async run(invocation) {
    const id = invocation.id(0, 'the task')
    await withDatabase(invocation, (db) => replayTask(db, id))
    invocation.answer({ id }, () => `task ${id} is tried again`)
    return undefined
  },
}

export const taskGate: Command = {
  usage: '<id>',
  help: `The task, which must not have begun, waits until somebody approves. A rejected or expired gate fails it. Prints the
approval's id.`,
  takes: [1, 1],
  options: {
    reason: { value: '<text>', help: 'Why it is asked for.' },
    'expires-after': { value: '<duration>', help: 'Such as 2d. Default: without an end.' },
  },
  async run(invocation) {
    const id = invocation.id(0, 'the task')
    const approval = await withDatabase(invocation, (db) =>
      requestApproval(db, id, {
        reason: invocation.text('reason'),
        expires_after: invocation.text('expires-after'),
      }),
    )
    invocation.answer({ id: approval, task_id: id }, () => String(approval))
    return undefined
  },
}
