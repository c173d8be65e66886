import { expect, it } from 'vitest'
import { Random } from '../faults/random.ts'
import { claim, enqueue, freshType } from '../support/engine.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one } from '../support/sql.ts'

// Between "found nothing" and "asleep" a job may be enqueued by one who sees no sleeper. The protocol of sleep_lock,
// sleep_horizon and sleep_pending finds it: stepped through, and then at random.

const database = ownDatabase()
const db = () => database.db

async function typeWithGroups(): Promise<{ type: string; groups: number[] }> {
  const type = freshType()
  await enqueue(db(), type)
  await claim(db(), type)
  return { type, groups: await one<number[]>(db(), 'select fencepost.wake_groups($1)', [[type]]) }
}

it('a job of one who looked for sleepers too early is found when that one ends', async () => {
  const { type, groups } = await typeWithGroups()
  await using enqueuer = await Session.open(database.url)
  await using sleeper = await Session.open(database.url)
  const heard = await sleeper.listen('fencepost')

  await enqueuer.begin()
  const [made] = await enqueuer.query<{ id: number }>('select fencepost.enqueue($1) as id', [type]) // sees no sleeper
  await sleeper.query('select fencepost.sleep_lock($1)', [groups])
  const [mark] = await db().query<{ horizon: number; pending: number }>(
    'select * from fencepost.sleep_horizon()',
  )
  expect(mark?.pending).toBeGreaterThanOrEqual(1)
  expect(await claim(db(), type)).toEqual([])
  await enqueuer.commit()

  const left = await one<number>(db(), 'select fencepost.sleep_pending($1)', [mark?.horizon])
  expect(left).toBeLessThan(mark?.pending ?? 0)
  expect((await claim(db(), type))[0]?.job_id).toBe(made?.id)
  await sleeper.query('select 1')
  expect(heard).toEqual([])
})

it('one who enqueues after the lock was taken notifies, however long its snapshot is open', async () => {
  const { type, groups } = await typeWithGroups()
  await using enqueuer = await Session.open(database.url)
  await using sleeper = await Session.open(database.url)
  const heard = await sleeper.listen('fencepost')
  await enqueuer.begin('repeatable read')
  await enqueuer.query('select count(*) from fencepost_private.ready')
  await sleeper.query('select fencepost.sleep_lock($1)', [groups])
  await enqueuer.query('select fencepost.enqueue($1)', [type])
  await enqueuer.commit()
  await sleeper.query('select 1')
  expect(heard).toHaveLength(1)
})

it('no wake-up is lost among sleepers whose poll never comes, and enqueuers of all kinds', async () => {
  const random = new Random()
  console.log(`seed ${random.seed} (FENCEPOST_SEED)`)
  const PAIRS = 6
  const ROUNDS = 25
  const pairs = await Promise.all(Array.from({ length: PAIRS }, () => typeWithGroups()))
  const slowest = await Promise.all(
    pairs.map(async ({ type, groups }) => {
      await using worker = await Worker.start(type, groups)
      await using enqueuer = await Session.open(database.url)
      let slow = 0
      for (let n = 0; n < ROUNDS; n++) {
        await pause(random.between(0, 30))
        await enqueuer.begin(random.next() < 0.5 ? 'repeatable read' : 'read committed')
        if (random.next() < 0.3) await enqueuer.query('select pg_current_xact_id()')
        if (random.next() < 0.3) await enqueuer.query('select count(*) from fencepost_private.lane')
        await enqueuer.query('select fencepost.enqueue($1)', [type])
        if (random.next() < 0.7) await pause(random.next() < 0.05 ? 400 : random.between(0, 40))
        const claimed = worker.next()
        await enqueuer.commit()
        const begin = performance.now()
        await claimed
        slow = Math.max(slow, performance.now() - begin)
      }
      return slow
    }),
  )
  // a job that was missed would lie until the poll, which never comes
  expect(Math.max(...slowest)).toBeLessThan(20_000)
})

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** A worker that follows the protocol to the letter, with no poll but what sleep_pending asks for. */
class Worker implements AsyncDisposable {
  #isStopped = false
  #ring: () => void = () => {}
  #claimed: () => void = () => {}
  #loop: Promise<void> = Promise.resolve()

  private constructor(
    private readonly session: Session,
    private readonly watch: Session,
    private readonly type: string,
    private readonly groups: number[],
  ) {}

  static async start(type: string, groups: number[]): Promise<Worker> {
    const [session, watch] = [await Session.open(database.url), await Session.open(database.url)]
    const worker = new Worker(session, watch, type, groups)
    await watch.listen('fencepost', () => worker.#ring())
    worker.#loop = worker.#run()
    return worker
  }

  /** When it has claimed its next job. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#claimed = resolve
    })
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      if (!(await this.#claims())) await this.#sleep()
    }
  }

  async #claims(): Promise<boolean> {
    const rows = await this.session.query(`select 1 from fencepost.claim($1, array[$1])`, [
      this.type,
    ])
    if (rows.length > 0) this.#claimed()
    return rows.length > 0
  }

  async #sleep(): Promise<void> {
    let isRung = false
    const rung = new Promise<void>((resolve) => {
      this.#ring = () => {
        isRung = true
        resolve()
      }
    })
    await this.watch.query('select fencepost.sleep_lock($1)', [this.groups])
    const [mark] = await this.session.query<{ horizon: number; pending: number }>(
      'select * from fencepost.sleep_horizon()',
    )
    let pending = mark?.pending ?? 0
    let hasWork = await this.#claims()
    const begin = performance.now()
    while (!hasWork && !isRung && !this.#isStopped) {
      if (pending === 0) {
        await rung
        break
      }
      await Promise.race([rung, pause(Math.max(2, (performance.now() - begin) / 8))])
      const [now] = await this.session.query<{ pending: number }>(
        'select fencepost.sleep_pending($1) as pending',
        [mark?.horizon],
      )
      if ((now?.pending ?? 0) < pending) {
        pending = now?.pending ?? 0
        hasWork = await this.#claims()
      }
    }
    await this.watch.query('select fencepost.sleep_unlock($1)', [this.groups])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopped = true
    this.#ring()
    await this.#loop
    await this.session[Symbol.asyncDispose]()
    await this.watch[Symbol.asyncDispose]()
  }
}
