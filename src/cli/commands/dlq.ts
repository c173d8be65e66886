import {
  type DeadLetterRow,
  deadLetters,
  discard,
  discardMatching,
  replay,
  replayMatching,
} from '../../database/engine.ts'
import { type OptionSpec, UsageError } from '../arguments.ts'
import type { Command, Invocation } from '../command.ts'
import { withDatabase } from '../database.ts'
import { table } from '../table.ts'

const reason = { value: '<text>', help: 'Why; kept in the event.' }

const filterOptions: Readonly<Record<string, OptionSpec>> = {
  type: { value: '<type>', help: 'Of this type.' },
  error: { value: '<text>', help: 'Whose final error contains this.' },
  'error-matches': { value: '<regexp>', help: 'Whose final error matches this.' },
  'failed-after': { value: '<time>', help: 'That failed at or after this time.' },
  'failed-before': { value: '<time>', help: 'That failed before this time.' },
  all: { help: 'All dead letters.' },
  'dry-run': { help: 'Only count them.' },
  max: { value: '<n>', help: 'How many at most. Default 10000.' },
}

const COLUMNS = ['job_id', 'type', 'attempts', 'failed_at', 'final_error'] as const

export const dlqList: Command = {
  help: 'Newest first. The whole of one: fencepost job get <id>.',
  options: {
    type: { value: '<type>', help: 'Of this type.' },
    limit: { value: '<n>', help: 'How many. Default 50.' },
    before: { value: '<id>', help: 'Go on below this job.' },
  },
  async run(invocation) {
    const rows = await withDatabase(invocation, (db) =>
      deadLetters(db, {
        type: invocation.text('type'),
        limit: invocation.number('limit'),
        before: invocation.number('before'),
      }),
    )
    invocation.answer(rows, () => shown(rows, invocation))
    return undefined
  },
}

function shown(rows: readonly DeadLetterRow[], { terminal }: Invocation): string {
  if (rows.length === 0) return 'No dead letters.'
  return table(rows as never, terminal, COLUMNS)
}

export const dlqReplay: Command = {
  usage: '[<id> …]',
  help: 'By id, or all that match. Their attempts start again at 1.',
  takes: [0, 1000],
  options: filterOptions,
  async run(invocation) {
    const { ids, filter } = chosen(invocation)
    const dryRun = invocation.has('dry-run')
    const count = await withDatabase(invocation, async (db) => {
      for (const id of ids) await replay(db, id)
      if (filter === undefined) return ids.length
      return replayMatching(db, filter, { dry_run: dryRun, max: invocation.number('max') })
    })
    told(invocation, count, dryRun, 'returned to work')
    return undefined
  },
}

export const dlqDiscard: Command = {
  usage: '[<id> …]',
  help: 'By id, or all that match. They end as discarded and keep their history.',
  takes: [0, 1000],
  options: { ...filterOptions, reason },
  async run(invocation) {
    const { ids, filter } = chosen(invocation)
    const dryRun = invocation.has('dry-run')
    const why = invocation.text('reason')
    const count = await withDatabase(invocation, async (db) => {
      for (const id of ids) await discard(db, id, why)
      if (filter === undefined) return ids.length
      const max = invocation.number('max')
      return discardMatching(db, filter, { dry_run: dryRun, max, reason: why })
    })
    told(invocation, count, dryRun, 'discarded')
    return undefined
  },
}

/** The jobs that are meant: by id, or by a filter, which must be said. */
function chosen(invocation: Invocation) {
  const ids = invocation.positionals.map((_, place) => invocation.id(place, 'the job'))
  const filter = {
    type: invocation.text('type'),
    error: invocation.text('error'),
    error_matches: invocation.text('error-matches'),
    failed_after: invocation.text('failed-after'),
    failed_before: invocation.text('failed-before'),
  }
  const filtered = Object.values(filter).some((value) => value !== undefined)
  if (ids.length > 0 && (filtered || invocation.has('all') || invocation.has('dry-run'))) {
    throw new UsageError('give ids or a filter, not both')
  }
  if (ids.length === 0 && !filtered && !invocation.has('all')) {
    throw new UsageError(
      'which ones?',
      'Give an id, or a filter such as --type email.send, or --all.',
    )
  }
  return { ids, filter: ids.length > 0 ? undefined : filter }
}

function told(invocation: Invocation, count: number, dryRun: boolean, what: string): void {
  const letters = `${count} dead ${count === 1 ? 'letter' : 'letters'}`
  invocation.answer({ count, dry_run: dryRun }, () =>
    dryRun ? `${letters} would be ${what}` : `${letters} ${what}`,
  )
}
