import type pg from 'pg'
import { decode } from './decode.ts'

/** Runs a statement on a node-postgres client, with this driver's own reading of the results. */
export async function runOnNodePostgres<Row>(
  client: pg.ClientBase,
  text: string,
  values: readonly (string | null)[],
): Promise<Row[]> {
  const result = await client.query({
    text,
    rowMode: 'array',
    types: { getTypeParser: () => (raw: string) => raw },
    // Without parameters several statements may stand in the text.
    ...(values.length > 0 ? { values: [...values] } : {}),
  } as unknown as pg.QueryArrayConfig)
  const last = Array.isArray(result) ? (result as pg.QueryArrayResult[]).at(-1) : result
  const fields = last?.fields ?? []
  const rows = (last?.rows ?? []) as (string | null)[][]
  return rows.map((row) => {
    const entries = fields.map(({ name, dataTypeID }, index) => {
      const raw = row[index] ?? null
      return [name, raw === null ? null : decode(raw, dataTypeID)]
    })
    return Object.fromEntries(entries) as Row
  })
}
