import { explainJob, type ReasonRow } from '../../database/engine.ts'
import type { Command } from '../command.ts'
import { withDatabase } from '../database.ts'
import type { Terminal } from '../terminal.ts'

export const jobExplain: Command = {
  usage: '<id>',
  help: 'Each reason that holds, and what would release the job.',
  takes: [1, 1],
  async run(invocation) {
    const id = invocation.id(0, 'the job')
    const reasons = await withDatabase(invocation, (db) => explainJob(db, id))
    invocation.answer(reasons, () =>
      reasons.map((each) => paragraph(each, invocation.terminal)).join('\n\n'),
    )
    return undefined
  },
}

function paragraph({ reason, detail, since, release }: ReasonRow, { style }: Terminal): string {
  const when = since === null ? '' : style.dim(` (since ${since.toISOString()})`)
  return `${style.bold(reason)}${when}\n  ${detail}\n  ${style.dim('Released by:')} ${release}`
}
