import { listJobs } from '../../database/engine.ts'
import type { Command } from '../command.ts'
import { withDatabase } from '../database.ts'
import { table } from '../table.ts'

const FILTERS = {
  type: { value: '<type>', help: 'Of this type.' },
  status: {
    value: '<status>',
    help: 'pending, running, waiting, completed, dead_letter, cancelled or discarded.',
  },
  tenant: { value: '<name>', help: 'Of this tenant.' },
  priority: { value: '<0-9>', help: 'Of this priority.' },
  worker: { value: '<name>', help: 'That this worker runs.' },
  error: { value: '<text>', help: 'Dead letters whose final error contains this.' },
  'idempotency-key': { value: '<key>', help: 'The one that has this key.' },
  'created-after': { value: '<time>', help: 'Enqueued at or after this time.' },
  'created-before': { value: '<time>', help: 'Enqueued before this time.' },
} as const

const COLUMNS = [
  'id',
  'type',
  'status',
  'priority',
  'attempts',
  'worker',
  'created_at',
  'last_error',
]

export const jobList: Command = {
  help: 'Newest first; no more than 10,000 jobs are looked at.',
  options: {
    ...FILTERS,
    limit: { value: '<n>', help: 'How many. Default 50.' },
    before: { value: '<id>', help: 'Go on below this job.' },
  },
  async run(invocation) {
    const rows = await withDatabase(invocation, (db) =>
      listJobs(db, invocation.filter(FILTERS), {
        max: invocation.number('limit'),
        after: invocation.number('before'),
      }),
    )
    const jobs = rows.filter(({ cut }) => !cut).map(({ cut: _, ...job }) => job)
    const end = rows.find(({ cut }) => cut)
    invocation.answer(jobs, () =>
      jobs.length === 0 ? 'No such jobs.' : table(jobs as never, invocation.terminal, COLUMNS),
    )
    if (end !== undefined) {
      invocation.terminal.note(`Looked at 10,000 jobs; go on with --before ${end.id}`)
    }
    return undefined
  },
}
