import { checkInvariants, doctor, type FindingRow } from '../../database/engine.ts'
import type { Command } from '../command.ts'
import { withDatabase } from '../database.ts'
import { exitCodes } from '../failure.ts'
import type { Terminal } from '../terminal.ts'

export const doctorCommand: Command = {
  help: `What was found, why it matters, and the SQL that mends it. Changes nothing. Exit code 1 when an error was found.
--invariants also proves that each job is in exactly one place, which reads every table.`,
  options: { invariants: { help: 'Also check the invariants of the engine.' } },
  async run(invocation) {
    const { terminal } = invocation
    const found = await withDatabase(invocation, async (db) => ({
      findings: await doctor(db),
      violations: invocation.has('invariants') ? await checkInvariants(db) : [],
    }))
    invocation.answer(found, () => {
      const violations = found.violations.map((each) => ({
        severity: 'error',
        topic: each.invariant,
        finding: each.detail,
        why: 'An invariant of the engine does not hold.',
        remedy: 'Report it, with what happened before.',
      }))
      const all = [...violations, ...found.findings]
      return all.length === 0
        ? terminal.style.green('Nothing is wrong.')
        : all.map((each) => paragraph(each, terminal)).join('\n\n')
    })
    const bad = found.violations.length > 0 || found.findings.some(isError)
    return bad ? exitCodes.failed : exitCodes.done
  },
}

function isError({ severity }: FindingRow): boolean {
  return severity === 'error'
}

function paragraph(
  { severity, finding, why, remedy, topic }: FindingRow,
  { style }: Terminal,
): string {
  const colour = { error: style.red, warning: style.yellow }[severity] ?? style.dim
  return `${colour(severity)} ${style.bold(topic)}: ${finding}\n  ${why}\n  ${style.dim('Remedy:')} ${remedy}`
}
