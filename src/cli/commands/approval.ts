import { approve, type Decided, listApprovals, reject } from '../../database/engine.ts'
import type { Command, Invocation } from '../command.ts'
import { withDatabase } from '../database.ts'
import { table } from '../table.ts'

const FILTERS = {
  status: { value: '<status>', help: 'pending, approved, rejected, expired or withdrawn.' },
  'run-id': { value: '<id>', help: 'Of this run.' },
  workflow: { value: '<name>', help: 'Of this workflow.' },
  tenant: { value: '<name>', help: 'Of this tenant.' },
} as const

export const approvalList: Command = {
  help: 'Those that are pending, newest first, unless a filter is given.',
  options: {
    ...FILTERS,
    limit: { value: '<n>', help: 'How many. Default 50.' },
    before: { value: '<id>', help: 'Go on below this approval.' },
  },
  async run(invocation) {
    const filter = invocation.filter(FILTERS)
    const chosen = Object.keys(filter).length === 0 ? { status: 'pending' } : filter
    const rows = await withDatabase(invocation, (db) =>
      listApprovals(db, chosen, {
        max: invocation.number('limit'),
        after: invocation.number('before'),
      }),
    )
    const approvals = rows.filter(({ cut }) => !cut).map(({ cut: _, ...approval }) => approval)
    const end = rows.find(({ cut }) => cut)
    invocation.answer(approvals, () =>
      approvals.length === 0
        ? 'No such approvals.'
        : table(approvals as never, invocation.terminal, [
            'id',
            'run_id',
            'workflow',
            'task',
            'status',
            'reason',
            'requested_at',
            'expires_at',
            'decided_by',
          ]),
    )
    if (end !== undefined) {
      invocation.terminal.note(`Looked at 10,000 approvals; go on with --before ${end.id}`)
    }
    return undefined
  },
}

const decisionOptions = {
  by: { value: '<name>', help: 'Who decides. Default: the role of the session.' },
  comment: { value: '<text>', help: 'Why.' },
  data: { value: '<json>', help: 'Becomes part of the output of the task.' },
} as const

export const approvalApprove: Command = {
  usage: '<id>',
  help: 'The run goes on. One decision only.',
  takes: [1, 1],
  options: decisionOptions,
  async run(invocation) {
    const id = invocation.id(0, 'the approval')
    const decision = await decisionOf(invocation)
    await withDatabase(invocation, (db) => approve(db, id, decision))
    invocation.answer({ id, status: 'approved' }, () => `approval ${id} is approved`)
    return undefined
  },
}

export const approvalReject: Command = {
  usage: '<id>',
  help: 'What follows is told by on_reject of the task: it fails (the default), is skipped, or continues.',
  takes: [1, 1],
  options: decisionOptions,
  async run(invocation) {
    const id = invocation.id(0, 'the approval')
    const decision = await decisionOf(invocation)
    await withDatabase(invocation, (db) => reject(db, id, decision))
    invocation.answer({ id, status: 'rejected' }, () => `approval ${id} is rejected`)
    return undefined
  },
}

async function decisionOf(invocation: Invocation): Promise<Decided> {
  const data = invocation.text('data')
  return {
    decided_by: invocation.text('by'),
    comment: invocation.text('comment'),
    data: data === undefined ? undefined : await invocation.parseJson('--data', data),
  }
}
