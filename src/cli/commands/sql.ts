import { readFile } from 'node:fs/promises'
import { UsageError } from '../arguments.ts'
import type { Command, Invocation } from '../command.ts'
import { withDatabase } from '../database.ts'
import { table } from '../table.ts'

/** Far beyond what a person waits for; Ctrl-C ends it before. In ms. */
const PATIENCE = 24 * 3_600_000

export const sql: Command = {
  usage: '<statement>',
  help: `Runs SQL, for those without psql, and shows the rows of its last statement. - reads standard input.

  fencepost sql "select id, type, status from fencepost.jobs order by id desc limit 10"`,
  takes: [0, 1],
  options: { file: { value: '<path>', short: 'f', help: 'Run the statements of a file.' } },
  async run(invocation) {
    const text = await statementOf(invocation)
    const rows = await withDatabase(invocation, (db) =>
      db.query<Record<string, unknown>>(text, [], { timeout: PATIENCE }),
    )
    const { terminal } = invocation
    invocation.answer(rows, () => {
      const count = `(${rows.length} ${rows.length === 1 ? 'row' : 'rows'})`
      return rows.length === 0 ? count : `${table(rows, terminal)}\n${terminal.style.dim(count)}`
    })
    return undefined
  },
}

async function statementOf(invocation: Invocation): Promise<string> {
  const [statement] = invocation.positionals
  const file = invocation.text('file')
  if ((statement === undefined) === (file === undefined)) {
    throw new UsageError(
      'give a statement or --file',
      'fencepost sql "select * from fencepost.stats()"',
    )
  }
  if (statement === '-') return invocation.input()
  if (statement !== undefined) return statement
  try {
    return await readFile(file ?? '', 'utf8')
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as NodeJS.ErrnoException).code}`)
  }
}
