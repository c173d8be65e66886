import { drainWorker, getWorker, leasesOf, workerPage } from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'
import type { Command } from '../command.ts'
import { withDatabase } from '../database.ts'
import { record, table } from '../table.ts'

/** How many workers `worker list` shows, and how many leases `worker get`. */
const MANY = 50

export const workerList: Command = {
  help: 'Newest first; each start of a process is a worker of its own.',
  options: {
    status: { value: '<status>', help: 'active, draining, lost or stopped.' },
    limit: { value: '<n>', help: `How many. Default ${MANY}.` },
    before: { value: '<id>', help: 'Go on below this worker.' },
  },
  async run(invocation) {
    const rows = await withDatabase(invocation, (db) =>
      workerPage(db, {
        status: invocation.text('status'),
        limit: invocation.number('limit') ?? MANY,
        before: invocation.number('before'),
      }),
    )
    invocation.answer(rows, () =>
      rows.length === 0
        ? 'No such workers.'
        : table(rows as never, invocation.terminal, [
            'id',
            'name',
            'hostname',
            'status',
            'active_jobs',
            'last_heartbeat',
            'types',
          ]),
    )
    return undefined
  },
}

export const workerGet: Command = {
  usage: '<id>',
  help: `Shows the worker and the first ${MANY} jobs that it holds.`,
  takes: [1, 1],
  async run(invocation) {
    const id = invocation.id(0, 'the worker')
    const found = await withDatabase(invocation, async (db) => {
      const worker = await getWorker(db, id)
      if (worker === undefined) {
        throw new FencepostError('JE002', `worker ${id} does not exist`, {
          hint: 'Workers that ended long ago are forgotten. See fencepost worker list.',
        })
      }
      return { ...worker, leases: await leasesOf(db, id, MANY) }
    })
    const { leases, ...worker } = found
    const { terminal } = invocation
    invocation.answer(found, () =>
      [
        record(worker, terminal),
        `\n${terminal.style.bold('leases')}`,
        table(leases as never, terminal, ['job_id', 'type', 'attempt', 'started_at', 'deadline']),
      ].join('\n'),
    )
    return undefined
  },
}

export const workerDrain: Command = {
  usage: '<id>',
  help: 'It finishes what it runs and takes nothing new. It hears of it with its next heartbeat, at the latest.',
  takes: [1, 1],
  async run(invocation) {
    const id = invocation.id(0, 'the worker')
    await withDatabase(invocation, (db) => drainWorker(db, id))
    invocation.answer({ id, status: 'draining' }, () => `worker ${id} is draining`)
    return undefined
  },
}
