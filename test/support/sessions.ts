import pg from 'pg'

const types: pg.CustomTypesConfig = {
  getTypeParser(oid, format) {
    if (oid === 20) return Number
    return pg.types.getTypeParser(oid, format)
  },
}

/** A session that a test steps through: each statement is sent when the test says so. */
export class Session implements AsyncDisposable {
  readonly #client: pg.Client
  readonly #url: string
  /** The server's process, as pg_stat_activity and pg_blocking_pids name it. */
  readonly pid: number

  private constructor(client: pg.Client, url: string, pid: number) {
    this.#client = client
    this.#url = url
    this.pid = pid
  }

  static async open(url: string): Promise<Session> {
    const client = new pg.Client({ connectionString: url, types })
    client.on('error', () => {}) // it may be cut by the test itself
    await client.connect()
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
    return new Session(client, url, rows[0]?.pid ?? 0)
  }

  async query<Row = Record<string, unknown>>(
    text: string,
    params: readonly unknown[] = [],
  ): Promise<Row[]> {
    const answer = await this.#client.query(text, params.length > 0 ? [...params] : undefined)
    return answer.rows as Row[]
  }

  /** Opens a transaction: READ COMMITTED unless said otherwise. */
  async begin(isolation = 'read committed'): Promise<void> {
    await this.query(`begin isolation level ${isolation}`)
  }

  async commit(): Promise<void> {
    await this.query('commit')
  }

  async rollback(): Promise<void> {
    await this.query('rollback')
  }

  /** Notifications of a channel, as they come; each is told as well. */
  async listen(channel: string, tell: (payload: string) => void = () => {}): Promise<string[]> {
    const heard: string[] = []
    this.#client.on('notification', ({ payload = '' }) => {
      heard.push(payload)
      tell(payload)
    })
    await this.query(`listen ${channel}`)
    return heard
  }

  /** Sends a statement that is expected to wait, and returns once the server says that it does. */
  async blocks<Row = Record<string, unknown>>(
    text: string,
    params: readonly unknown[] = [],
  ): Promise<Waiting<Row>> {
    const answer = this.query<Row>(text, params)
    const settled = answer.then(
      (rows) => `it answered at once: ${JSON.stringify(rows)}`,
      (error: Error) => `it failed at once: ${error.message}`,
    )
    const observer = new pg.Client({ connectionString: this.#url })
    await observer.connect()
    try {
      const deadline = Date.now() + 20_000
      for (;;) {
        const { rows } = await observer.query<{ blockers: number[] }>(
          'select pg_blocking_pids($1) as blockers',
          [this.pid],
        )
        if ((rows[0]?.blockers.length ?? 0) > 0) return { answer }
        const early = await Promise.race([settled, pause(2)])
        if (early !== undefined) throw new Error(`${text}: should have waited, but ${early}`)
        if (Date.now() > deadline) throw new Error(`${text}: neither waits nor answers`)
      }
    } finally {
      await observer.end()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end()
  }
}

/** A statement that waits for another session. */
export interface Waiting<Row> {
  /** Its answer, once the other session lets it go on. */
  readonly answer: Promise<Row[]>
}

function pause(ms: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(() => resolve(undefined), ms))
}
