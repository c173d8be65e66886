import {
  getRun,
  listApprovals,
  listRuns,
  listTasks,
  type NewRun,
  signals,
  startRun,
} from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'
import type { Command, Invocation } from '../command.ts'
import { withDatabase } from '../database.ts'
import { record, table } from '../table.ts'

/** How many tasks, approvals and signals `run get` shows. */
const MANY = 200

export const runStart: Command = {
  usage: '<workflow> [input]',
  help: `The input is JSON, default {}; - reads it from standard input. Prints the run's id.

  fencepost run start order.fulfil '{"id": 7, "amount": 120}'`,
  takes: [1, 2],
  options: {
    version: { value: '<n>', help: 'Default: the latest.' },
    'idempotency-key': { value: '<key>', help: 'The same key gives the same run.' },
    tags: { value: '<tag,…>', help: 'Words for finding it.' },
    priority: { value: '<0-9>', help: 'Of its jobs. Higher first, default 5.' },
    tenant: { value: '<name>', help: 'Whose run it is.' },
  },
  async run(invocation) {
    const run = await newRun(invocation)
    const id = await withDatabase(invocation, (db) => startRun(db, run))
    invocation.answer({ id }, () => String(id))
    return undefined
  },
}

async function newRun(invocation: Invocation): Promise<NewRun> {
  const [workflow = '', input = '{}'] = invocation.positionals
  return {
    workflow,
    input: await invocation.parseJson('the input', input),
    version: invocation.number('version'),
    idempotency_key: invocation.text('idempotency-key'),
    tags: invocation.words('tags'),
    priority: invocation.number('priority'),
    tenant: invocation.text('tenant'),
  }
}

export const runGet: Command = {
  usage: '<id>',
  help: `Shows the run, its tasks (${MANY} at most), what it waits for and the signals that it received.`,
  takes: [1, 1],
  async run(invocation) {
    const id = invocation.id(0, 'the run')
    const found = await withDatabase(invocation, async (db) => {
      const run = await getRun(db, id)
      if (run === undefined) throw missing(id)
      const [tasks, approvals, received] = await Promise.all([
        listTasks(db, id, {}, { max: MANY }),
        listApprovals(db, { run_id: id, status: 'pending' }, { max: MANY }),
        signals(db, id, { max: MANY }),
      ])
      const pending_approvals = approvals.filter(({ cut }) => !cut)
      return {
        ...run,
        tasks: tasks.map(({ cut: _, ...task }) => task),
        pending_approvals,
        signals: received,
      }
    })
    invocation.answer(found, () => shown(found, invocation))
    return undefined
  },
}

function shown(
  found: Readonly<Record<'tasks' | 'pending_approvals' | 'signals', readonly object[]>>,
  { terminal }: Invocation,
): string {
  const { tasks, pending_approvals, signals: received, ...run } = found
  const part = (title: string, rows: readonly object[], columns: readonly string[]) =>
    rows.length === 0
      ? []
      : [`\n${terminal.style.bold(title)}`, table(rows as never, terminal, columns)]
  return [
    record(run, terminal),
    ...part('tasks', tasks, ['id', 'name', 'kind', 'status', 'attempts', 'job_id', 'error']),
    ...part('waits for', pending_approvals, ['id', 'task', 'reason', 'requested_at', 'expires_at']),
    ...part('signals', received, ['id', 'name', 'payload', 'received_at', 'task_id']),
  ].join('\n')
}

const FILTERS = {
  workflow: { value: '<name>', help: 'Of this workflow.' },
  version: { value: '<n>', help: 'Of this version of the workflow.' },
  status: {
    value: '<status>',
    help: 'running, waiting, paused, completed, failed, cancelled, compensating or compensated.',
  },
  tag: { value: '<tag>', help: 'That has this tag.' },
  tenant: { value: '<name>', help: 'Of this tenant.' },
  'idempotency-key': { value: '<key>', help: 'The one of the workflow that has this key.' },
  'created-after': { value: '<time>', help: 'Started at or after this time.' },
  'created-before': { value: '<time>', help: 'Started before this time.' },
} as const

const COLUMNS = [
  'id',
  'workflow',
  'version',
  'status',
  'ended_tasks',
  'failed_tasks',
  'total_tasks',
  'created_at',
  'finished_at',
  'tags',
]

export const runList: Command = {
  help: 'Newest first; no more than 10,000 runs are looked at.',
  options: {
    ...FILTERS,
    limit: { value: '<n>', help: 'How many. Default 50.' },
    before: { value: '<id>', help: 'Go on below this run.' },
  },
  async run(invocation) {
    const rows = await withDatabase(invocation, (db) =>
      listRuns(db, invocation.filter(FILTERS), {
        max: invocation.number('limit'),
        after: invocation.number('before'),
      }),
    )
    const runs = rows.filter(({ cut }) => !cut).map(({ cut: _, ...run }) => run)
    const end = rows.find(({ cut }) => cut)
    invocation.answer(runs, () =>
      runs.length === 0 ? 'No such runs.' : table(runs as never, invocation.terminal, COLUMNS),
    )
    if (end !== undefined) {
      invocation.terminal.note(`Looked at 10,000 runs; go on with --before ${end.id}`)
    }
    return undefined
  },
}

function missing(id: number): FencepostError {
  return new FencepostError('JE002', `run ${id} does not exist`, {
    hint: 'See fencepost run list.',
  })
}
