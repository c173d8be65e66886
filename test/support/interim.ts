import pg from 'pg'

const types = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    if (oid === 20) return Number
    if (oid === 1186) return String
    if (oid === 1016)
      return (text: string) => text.slice(1, -1).split(',').filter(Boolean).map(Number)
    return pg.types.getTypeParser(oid, format as 'text')
  },
}

export interface Queryable {
  query<Row = Record<string, unknown>>(text: string, params?: readonly unknown[]): Promise<Row[]>
}

export interface Database extends Queryable, AsyncDisposable {
  transaction<T>(run: (tx: Queryable) => Promise<T>): Promise<T>
  close(): Promise<void>
}

export function connect({ url }: { url: string }): Database {
  const pool = new pg.Pool({ connectionString: url, max: 10, types: types as pg.CustomTypesConfig })
  pool.on('error', () => {})
  const on = (client: pg.Pool | pg.PoolClient): Queryable => ({
    query: async <Row>(text: string, params: readonly unknown[] = []) =>
      (await client.query(text, params.length ? [...params] : undefined)).rows as Row[],
  })
  return {
    ...on(pool),
    async transaction(run) {
      const client = await pool.connect()
      try {
        await client.query('begin')
        const result = await run(on(client))
        await client.query('commit')
        return result
      } catch (error) {
        await client.query('rollback')
        throw error
      } finally {
        client.release()
      }
    },
    close: () => pool.end(),
    [Symbol.asyncDispose]: () => pool.end(),
  }
}
