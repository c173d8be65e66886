import { readFile } from 'node:fs/promises'
import { runStatements, type StatementResult } from '../../database/console.ts'
import { UsageError } from '../arguments.ts'
import type { Command, Invocation } from '../command.ts'
import { databaseUrl } from '../database.ts'
import { grid } from '../table.ts'
import type { Terminal } from '../terminal.ts'

export const sql: Command = {
  usage: '<statement>',
  help: `Runs SQL, for those without psql, and shows what each statement gives; - reads standard input. With --json, the rows
of the last one.

  fencepost sql "select id, type, status from fencepost.jobs order by id desc limit 10"`,
  takes: [0, 1],
  options: { file: { value: '<path>', short: 'f', help: 'Run the statements of a file.' } },
  async run(invocation) {
    const { terminal } = invocation
    const text = await statementOf(invocation)
    const results = await runStatements(databaseUrl(invocation), text, terminal.note)
    const last = results.findLast(({ columns }) => columns.length > 0)
    invocation.answer(last === undefined ? [] : objectsOf(last), () =>
      results.map((each) => shown(each, terminal)).join('\n'),
    )
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

function shown({ columns, rows, tag }: StatementResult, terminal: Terminal): string {
  if (columns.length === 0) return terminal.style.dim(tag)
  const count = terminal.style.dim(`(${rows.length} ${rows.length === 1 ? 'row' : 'rows'})`)
  return rows.length === 0 ? count : `${grid(columns, rows, terminal)}\n${count}`
}

/** Rows by column; of columns with one name the later ones have a number. */
function objectsOf({ columns, rows }: StatementResult): Record<string, unknown>[] {
  const seen = new Map<string, number>()
  const names = columns.map((name) => {
    const times = (seen.get(name) ?? 0) + 1
    seen.set(name, times)
    return times === 1 ? name : `${name}_${times}`
  })
  return rows.map((row) => Object.fromEntries(names.map((name, index) => [name, row[index]])))
}
