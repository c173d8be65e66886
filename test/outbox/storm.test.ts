import { expect, it } from 'vitest'
import { Random } from '../faults/random.ts'
import { enqueue, freshType, violations } from '../support/engine.ts'
import { createConsumer, publishing, type Told } from '../support/outbox.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { column } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

/** How long writers go on, and how late the latest commits, in ms. */
const TIME = 40_000
const LATE = 30_000
const pause = (time: number) => new Promise((resolve) => setTimeout(resolve, time))

/** Writes in transactions of one to four changes, of which some are undone, some held open, some commit very late. */
class Writers {
  readonly #random: Random
  readonly #types: readonly string[]
  #over = false
  commits = 0
  rollbacks = 0

  constructor(random: Random, types: readonly string[]) {
    this.#random = random
    this.#types = types
  }

  stop(): void {
    this.#over = true
  }

  async run(name: string): Promise<void> {
    await using session = await Session.open(database.url)
    while (!this.#over) {
      await this.#transaction(session, name, this.#random.pick([0, 0, 0, 0, 20, 300, 2_000]))
    }
  }

  /** One whose transaction is open for as long as it takes to be late. */
  async late(name: string): Promise<void> {
    await using session = await Session.open(database.url)
    await this.#transaction(session, name, LATE, 'commit')
  }

  async #transaction(session: Session, name: string, held: number, ending?: string): Promise<void> {
    const random = this.#random
    await session.begin()
    try {
      for (let step = random.between(1, 4); step > 0; step--) await this.#step(session, name)
      if (held > 0) await pause(held)
      const end = ending ?? (random.next() < 0.2 ? 'rollback' : 'commit')
      await session.query(end)
      if (end === 'commit') this.commits += 1
      else this.rollbacks += 1
    } catch {
      await session.rollback() // two of them met in the wrong order: then neither happened
      this.rollbacks += 1
    }
  }

  async #step(session: Session, name: string): Promise<void> {
    const random = this.#random
    const type = random.pick(this.#types)
    const dice = random.next()
    if (dice < 0.5) {
      await session.query('select fencepost.enqueue($1)', [type])
    } else if (dice < 0.6) {
      await session.query('savepoint maybe')
      await session.query('select fencepost.enqueue($1)', [type])
      await session.query(
        random.next() < 0.5 ? 'rollback to savepoint maybe' : 'release savepoint maybe',
      )
    } else {
      const jobs = await session.query<{ job_id: number; token: number }>(
        'select * from fencepost.claim($1, $2, $3)',
        [name, [type], random.between(1, 5)],
      )
      for (const job of jobs) {
        const end = random.next() < 0.7 ? 'fencepost.complete($1, $2)' : 'fencepost.release($1, $2)'
        await session.query(`select ${end}`, [job.job_id, job.token])
      }
    }
  }
}

/** A consumer's readers: they come and go, and forget now and then what they read. */
class Readers {
  readonly #random: Random
  readonly #name: string
  readonly seen: { id: number; job: number }[] = []
  #over = false

  constructor(random: Random, name: string) {
    this.#random = random
    this.#name = name
  }

  stop(): void {
    this.#over = true
  }

  /** At least once: acknowledges a part, forgets the rest, or is followed by another reader. */
  async atLeastOnce(): Promise<void> {
    await using session = await Session.open(database.url)
    const random = this.#random
    let reader = 0
    for (;;) {
      const over = this.#over // before the last look, not after it
      const events = await session.query<Told>(
        `select * from fencepost.read_events($1, $2, $3, '1 second')`,
        [this.#name, random.between(1, 200), `reader-${reader}`],
      )
      this.#note(events)
      const acked =
        events[random.next() < 0.7 ? events.length - 1 : random.between(0, events.length - 1)]
      if (acked === undefined) {
        if (over && (await this.#isDone(session))) return
        await pause(20)
      } else if (random.next() < 0.9 || over) {
        await session.query('select fencepost.ack_events($1, $2)', [this.#name, acked.position])
      } else {
        reader += 1
      }
    }
  }

  /** Exactly once: what is read is written and acknowledged in one transaction, or none of it. */
  async exactlyOnce(): Promise<void> {
    await using session = await Session.open(database.url)
    const random = this.#random
    for (;;) {
      const over = this.#over
      await session.begin()
      const events = await session.query<Told>('select * from fencepost.read_events($1, $2)', [
        this.#name,
        random.between(1, 300),
      ])
      for (const event of events) {
        await session.query('insert into public.bill (event_id, job_id) values ($1, $2)', [
          event.id,
          event.job_id,
        ])
      }
      const last = events.at(-1)
      if (last !== undefined) {
        await session.query('select fencepost.ack_events($1, $2)', [this.#name, last.position])
      }
      await session.query(random.next() < 0.2 && !over ? 'rollback' : 'commit')
      if (last === undefined) {
        if (over && (await this.#isDone(session))) return
        await pause(20)
      }
    }
  }

  async #isDone(session: Session): Promise<boolean> {
    const [row] = await session.query<{ lag_events: number }>(
      'select lag_events from fencepost.consumers where name = $1',
      [this.#name],
    )
    return row?.lag_events === 0
  }

  #note(events: readonly Told[]): void {
    for (const { id, job_id } of events) this.seen.push({ id, job: job_id ?? 0 })
  }
}

/** Events whose first delivery came before that of an earlier event of the same job. */
function outOfOrder(seen: readonly { id: number; job: number }[]): number[] {
  const newest = new Map<number, number>()
  const known = new Set<number>()
  return seen.flatMap(({ id, job }) => {
    if (known.has(id)) return []
    known.add(id)
    const before = newest.get(job) ?? 0
    newest.set(job, Math.max(id, before))
    return id < before ? [id] : []
  })
}

it('a storm of commits, rollbacks and late transactions reaches three consumers whole and in order', {
  timeout: TIME * 5,
}, async () => {
  const random = new Random()
  console.log(`outbox storm: FENCEPOST_SEED=${random.seed}`)
  const types = await Promise.all(
    [freshType(), freshType(), freshType()].map((type) => publishing(db(), type)),
  )
  for (const type of types) {
    await db().query('select fencepost.configure_type($1, publish_started => true)', [type])
    await enqueue(db(), type)
  }
  await db().query(
    'create table public.bill (seq bigint generated always as identity, event_id bigint primary key, job_id bigint)',
  )
  const names = ['analytics', 'billing', 'notifications'] as const
  for (const name of names) await createConsumer(db(), name, { types }, 'beginning')

  const writers = new Writers(random, types)
  const readers = names.map((name) => new Readers(random, name))
  const reading = readers.map((reader, index) =>
    names[index] === 'billing' ? reader.exactlyOnce() : reader.atLeastOnce(),
  )
  const writing = [
    ...Array.from({ length: 6 }, (_, index) => writers.run(`writer-${index}`)),
    ...Array.from({ length: 2 }, (_, index) => writers.late(`late-${index}`)),
  ]
  await pause(TIME)
  writers.stop()
  await Promise.all(writing)
  for (const reader of readers) reader.stop()
  await Promise.all(reading)

  const all = await column<number>(
    db(),
    `select e.id from fencepost_private.event e
     join fencepost_private.lane l on l.lane_id = e.lane_id
     join fencepost_private.job_type t on t.type_id = l.type_id
     where t.type = any ($1) order by e.id`,
    [types],
  )
  console.log(
    `outbox storm: ${writers.commits} commits, ${writers.rollbacks} rollbacks, ${all.length} events`,
  )
  expect(all.length).toBeGreaterThan(500)
  expect(writers.rollbacks).toBeGreaterThan(0)
  for (const [index, name] of names.entries()) {
    const seen =
      name === 'billing'
        ? (
            await db().query<{ event_id: number; job_id: number }>(
              'select event_id, job_id from public.bill order by seq',
            )
          ).map((row) => ({ id: row.event_id, job: row.job_id }))
        : (readers[index]?.seen ?? [])
    const ids = [...new Set(seen.map((event) => event.id))].sort((a, b) => a - b)
    expect(ids, name).toEqual(all)
    expect(outOfOrder(seen), name).toEqual([])
  }
  expect(await violations(db())).toEqual([])
})
