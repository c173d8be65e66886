/** What a statement gave. */
export interface Answer<Row> {
  readonly rows: Row[]
  /** The server's word for what was done, as `SELECT` or `COMMIT`. */
  readonly command: string
}

/** What postgres.js resolved with, as a plain array of plain objects: of several statements the last one's rows. */
export function readAnswer<Row>(result: unknown): Answer<Row> {
  const answers = result as { command?: string }[] & { command?: string }
  const several = answers.command === undefined && answers[0]?.command !== undefined
  const last = (several ? answers.at(-1) : answers) as unknown as Row[] & { command?: string }
  return { rows: Array.from(last), command: last.command ?? '' }
}
