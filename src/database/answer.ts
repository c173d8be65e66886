/** What a statement gave. */
export interface Answer<Row> {
  readonly rows: Row[]
  /** The server's word for what was done, as `SELECT` or `COMMIT`. */
  readonly command: string
  /** True when it left a transaction open. */
  readonly open: boolean
}

const TRANSACTIONAL = /^(BEGIN|START TRANSACTION|COMMIT|ROLLBACK|PREPARE TRANSACTION)$/

/** What postgres.js resolved with, as a plain array of plain objects: of several statements the last one's rows. */
export function readAnswer<Row>(result: unknown): Answer<Row> {
  const answers = result as { command?: string }[] & { command?: string }
  const several = answers.command === undefined && answers[0]?.command !== undefined
  const last = (several ? answers.at(-1) : answers) as unknown as Row[] & { command?: string }
  const commands = several ? answers.map(({ command }) => command ?? '') : [last.command ?? '']
  return {
    rows: Array.from(last),
    command: commands.at(-1) ?? '',
    open: /^(BEGIN|START)/.test(commands.findLast((each) => TRANSACTIONAL.test(each)) ?? ''),
  }
}
