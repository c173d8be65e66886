import {
  attempts,
  cancel,
  enqueue,
  enqueueMany,
  getJob,
  history,
  leaseOf,
  type NewJob,
  replay,
} from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'
import { UsageError } from '../arguments.ts'
import type { Command, Invocation } from '../command.ts'
import { withDatabase } from '../database.ts'
import { record, table } from '../table.ts'

const reason = { value: '<text>', help: 'Why; kept in the event.' }

/** How many events `job get` shows. */
const NEWEST = 50

export const jobEnqueue: Command = {
  usage: '<type> [payload]',
  help: `The payload is JSON, default {}; - reads it from standard input. Prints the job's id.

  fencepost job enqueue email.send '{"to": "ada@example.org"}' --priority 8`,
  takes: [1, 2],
  options: {
    priority: { value: '<0-9>', help: 'Higher first. Default 5.' },
    delay: { value: '<duration>', help: 'Not before this long from now, such as 10m.' },
    'run-at': { value: '<time>', help: 'Not before this time.' },
    'idempotency-key': { value: '<key>', help: 'The same key gives the same job.' },
    'max-attempts': { value: '<n>', help: 'How often it is tried. Default: its type says.' },
    timeout: { value: '<duration>', help: 'The limit of one attempt.' },
    headers: { value: '<json>', help: 'Metadata for machines.' },
    tenant: { value: '<name>', help: 'Whose job it is.' },
  },
  async run(invocation) {
    const job = await jobOf(invocation)
    const { id, created } = await withDatabase(invocation, async (db) => {
      if (job.idempotency_key === undefined) return { id: await enqueue(db, job), created: true }
      const [row] = await enqueueMany(db, [job])
      return { id: row?.job_id, created: row?.created }
    })
    if (!created)
      invocation.terminal.note('The idempotency key was taken: this is the job that has it.')
    invocation.answer({ id, created }, () => String(id))
    return undefined
  },
}

async function jobOf(invocation: Invocation): Promise<NewJob> {
  const [type = '', payload = '{}'] = invocation.positionals
  const headers = invocation.text('headers')
  return {
    type,
    payload: await invocation.parseJson('the payload', payload),
    priority: invocation.number('priority'),
    delay: invocation.text('delay'),
    run_at: invocation.text('run-at'),
    idempotency_key: invocation.text('idempotency-key'),
    max_attempts: invocation.number('max-attempts'),
    timeout: invocation.text('timeout'),
    headers:
      headers === undefined
        ? undefined
        : objectOf(await invocation.parseJson('--headers', headers)),
    tenant: invocation.text('tenant'),
  }
}

function objectOf(value: unknown): Record<string, unknown> {
  if (value !== null && typeof value === 'object' && !Array.isArray(value)) {
    return value as Record<string, unknown>
  }
  throw new UsageError('--headers must be a JSON object', `For example '{"traceparent": "…"}'.`)
}

export const jobGet: Command = {
  usage: '<id>',
  help: `Shows the job, its lease while it runs, its attempts and its newest ${NEWEST} events.`,
  takes: [1, 1],
  async run(invocation) {
    const id = invocation.id(0, 'the job')
    const found = await withDatabase(invocation, async (db) => {
      const job = await getJob(db, id)
      if (job === undefined) throw missing(id)
      return {
        ...job,
        lease: (await leaseOf(db, id)) ?? null,
        attempts_made: await attempts(db, id),
        events: (await history(db, id, { limit: NEWEST })).map(({ place: _, ...event }) => event),
      }
    })
    const { lease: _, attempts_made, events, ...job } = found
    const { terminal } = invocation
    const { bold } = terminal.style
    invocation.answer(found, () =>
      [
        record(job, terminal),
        `\n${bold('attempts')}`,
        table(attempts_made as never, terminal, [
          'attempt',
          'token',
          'worker',
          'outcome',
          'started_at',
          'finished_at',
          'error',
        ]),
        `\n${bold('events')}`,
        table(events as never, terminal, ['created_at', 'kind', 'attempt', 'worker', 'data']),
      ].join('\n'),
    )
    return undefined
  },
}

export const jobCancel: Command = {
  usage: '<id>',
  help: 'Cancels a job that waits at once, or asks a running one to stop.',
  takes: [1, 1],
  options: { reason },
  async run(invocation) {
    const id = invocation.id(0, 'the job')
    const verdict = await withDatabase(invocation, (db) =>
      cancel(db, id, invocation.text('reason')),
    )
    invocation.answer({ id, verdict }, () =>
      verdict === 'cancelled'
        ? `job ${id} is cancelled`
        : `job ${id} runs: its worker was asked to stop it`,
    )
    return undefined
  },
}

export const jobRetry: Command = {
  usage: '<id>',
  help: 'Returns a dead letter to work; its attempts start again at 1.',
  takes: [1, 1],
  async run(invocation) {
    const id = invocation.id(0, 'the job')
    await withDatabase(invocation, (db) => replay(db, id))
    invocation.answer({ id, status: 'pending' }, () => `job ${id} is pending again`)
    return undefined
  },
}

function missing(id: number): FencepostError {
  return new FencepostError('JE002', `job ${id} does not exist`, {
    hint: 'Finished jobs are removed after keep_finished of their type.',
  })
}
