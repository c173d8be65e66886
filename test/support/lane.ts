import { moveClock } from './clock.ts'
import { claim, enqueue, enqueueBatch, freshType } from './engine.ts'
import { type TestDatabase, testDatabase } from './server.ts'
import { Session } from './sessions.ts'

/** A database with one lane, which has been claimed from, and sessions that come and go with it. */
export class Lane implements AsyncDisposable {
  readonly database: TestDatabase
  readonly type = freshType()
  readonly #sessions: Session[] = []

  private constructor(database: TestDatabase) {
    this.database = database
  }

  static async make(): Promise<Lane> {
    const lane = new Lane(await testDatabase())
    // whoever makes a lane in an open transaction keeps others from it: so it is there
    await enqueue(lane.db, lane.type)
    await claim(lane.db, lane.type)
    return lane
  }

  get db() {
    return this.database.db
  }

  /** A session, closed with the lane. */
  async open(): Promise<Session> {
    const session = await Session.open(this.database.url)
    this.#sessions.push(session)
    return session
  }

  /** The ids of what a session claims. */
  async claimIn(session: Session, max = 100): Promise<number[]> {
    const rows = await session.query<{ job_id: number }>(
      `select job_id from fencepost.claim('w', array[$1::text], $2)`,
      [this.type, max],
    )
    return rows.map((row) => row.job_id)
  }

  /** The id of what a session enqueues. */
  async enqueueIn(session: Session): Promise<number> {
    const [row] = await session.query<{ id: number }>('select fencepost.enqueue($1) as id', [
      this.type,
    ])
    return row?.id ?? 0
  }

  /** Other jobs come and go, and the watermark is computed anew each time. */
  async pass(times = 3): Promise<void> {
    for (let n = 0; n < times; n++) {
      await enqueueBatch(this.db, this.type, 2)
      await moveClock(this.db, '1 s')
      await claim(this.db, this.type, 2)
    }
  }

  /** All that claims still find. */
  async left(): Promise<number[]> {
    const found: number[] = []
    for (;;) {
      const jobs = await claim(this.db, this.type, 1000)
      if (jobs.length === 0) return found
      found.push(...jobs.map((job) => job.job_id))
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const session of this.#sessions) await session[Symbol.asyncDispose]()
    await this.database.drop()
  }
}
