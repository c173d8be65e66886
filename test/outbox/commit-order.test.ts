import { afterEach, describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../support/clock.ts'
import { enqueue, freshType } from '../support/engine.ts'
import {
  ackEvents,
  consumerState,
  createConsumer,
  drainEvents,
  publishing,
  readEvents,
} from '../support/outbox.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => restoreClock(db()))

const open = () => Session.open(database.url)
const setUp = async () => {
  const type = await publishing(db(), freshType())
  await enqueue(db(), type) // the first of its lane, which others would wait for
  await createConsumer(db(), type, { types: [type] })
  return type
}
const put = (session: Session, type: string) =>
  session
    .query<{ id: number }>('select fencepost.enqueue($1) as id', [type])
    .then(([row]) => row?.id)
const jobs = async (type: string, max = 100) =>
  (await drainEvents(db(), type, max)).map((event) => event.job_id)

describe('the order of commits', () => {
  it('an event that commits late comes after its commit, and holds up nobody before', async () => {
    const type = await setUp()
    await using writer = await open()
    await writer.begin()
    const late = await put(writer, type)
    const first = await enqueue(db(), type)
    expect(await jobs(type)).toEqual([first])
    const second = await enqueue(db(), type)
    expect(await jobs(type)).toEqual([second])
    expect(await consumerState(db(), type)).toMatchObject({ lag_events: 0 })
    await writer.commit()
    expect(await consumerState(db(), type)).toMatchObject({ lag_events: 1 })
    expect(await jobs(type)).toEqual([late])
    expect(await jobs(type)).toEqual([])
  })

  it('an event in flight at the end of a batch is unread while the batch is half read', async () => {
    const type = await setUp()
    await using writer = await open()
    await writer.begin()
    const late = await put(writer, type)
    const first = await enqueue(db(), type)
    const second = await enqueue(db(), type)
    await moveClock(db(), '1 second')
    const read = await readEvents(db(), type)
    expect(read.map((event) => event.job_id)).toEqual([first, second])
    await ackEvents(db(), type, read[0]?.position ?? '')
    await writer.commit()
    expect(await consumerState(db(), type)).toMatchObject({ lag_events: 2 })
    const { id } = (await one<{ id: number }>(
      db(),
      `select to_jsonb(e) from fencepost_private.event e where e.job_id = $1`,
      [late],
    )) as { id: number }
    expect(await one(db(), 'select fencepost_private.is_unread($1, $2)', [id, id + 1])).toBe(true)
    expect(await jobs(type)).toEqual([second, late])
  })

  it('a prepared transaction holds up nobody either', async () => {
    const type = await setUp()
    await using writer = await open()
    await writer.begin()
    const late = await put(writer, type)
    await writer.query(`prepare transaction 'held'`)
    const first = await enqueue(db(), type)
    expect(await jobs(type)).toEqual([first])
    await moveClock(db(), '1 day')
    expect(await jobs(type)).toEqual([])
    await db().query(`commit prepared 'held'`)
    expect(await jobs(type)).toEqual([late])
  })

  it('what is rolled back never comes, nor what a savepoint took back', async () => {
    const type = await setUp()
    await using writer = await open()
    await writer.begin()
    await put(writer, type)
    expect(await jobs(type)).toEqual([])
    await writer.rollback()
    await writer.begin()
    const kept = await put(writer, type)
    await writer.query('savepoint here')
    await put(writer, type)
    await writer.query('rollback to savepoint here')
    await writer.query('savepoint there')
    const also = await put(writer, type)
    await writer.commit()
    expect(await jobs(type)).toEqual([kept, also])
  })

  it.each([1, 3, 100])(
    'twenty transactions that cross each other, read %i at a time',
    async (max) => {
      const type = await setUp()
      const writers = await Promise.all(Array.from({ length: 20 }, open))
      const seen: (number | null)[] = []
      const committed: (number | undefined)[] = []
      for (const [index, writer] of writers.entries()) {
        await writer.begin()
        committed.push(await put(writer, type))
        const other = writers[(index * 7) % 20] as Session
        if (index % 2 === 1 && index !== (index * 7) % 20) await put(other, type).catch(() => {})
        if (index % 3 === 2) seen.push(...(await jobs(type, max)))
      }
      const ended = [...writers.entries()].sort(([a], [b]) => ((a * 13) % 20) - ((b * 13) % 20))
      for (const [index, writer] of ended) {
        await writer.commit()
        if (index % 4 === 0) seen.push(...(await jobs(type, max)))
      }
      seen.push(...(await jobs(type, max)))
      await Promise.all(writers.map((writer) => writer[Symbol.asyncDispose]()))
      const all = await db().query<{ id: number }>(
        'select id from fencepost.jobs where type = $1 order by id offset 1',
        [type],
      )
      expect([...seen].sort((a, b) => Number(a) - Number(b))).toEqual(all.map((row) => row.id))
      expect(seen).toEqual(expect.arrayContaining(committed))
    },
  )

  it('a reader that writes events itself gets them after its own commit', async () => {
    const type = await setUp()
    await using reader = await open()
    await reader.begin()
    const own = await put(reader, type)
    const rows = await reader.query('select * from fencepost.read_events($1)', [type])
    expect(rows).toEqual([])
    await reader.commit()
    expect(await jobs(type)).toEqual([own])
  })
})

describe('a transactional consumer', () => {
  it('reads, works and acknowledges in one transaction, or none of it', async () => {
    const type = await setUp()
    await db().query('create table if not exists public.ledger (job_id bigint)')
    const id = await enqueue(db(), type)
    await moveClock(db(), '1 second')
    await using reader = await open()
    for (const ending of ['rollback', 'commit', 'commit'] as const) {
      await reader.begin()
      const rows = await reader.query<{ position: string; job_id: number }>(
        'select * from fencepost.read_events($1)',
        [type],
      )
      for (const row of rows) {
        await reader.query('insert into public.ledger values ($1)', [row.job_id])
        await reader.query('select fencepost.ack_events($1, $2)', [type, row.position])
      }
      await reader[ending]()
    }
    expect(await db().query('select job_id from public.ledger')).toEqual([{ job_id: id }])
  })

  it('keeps other readers out while its transaction is open, without making them wait', async () => {
    const type = await setUp()
    await enqueue(db(), type)
    await moveClock(db(), '1 second')
    await using reader = await open()
    await reader.begin()
    const [row] = await reader.query<{ position: string }>(
      'select * from fencepost.read_events($1)',
      [type],
    )
    expect(await readEvents(db(), type)).toEqual([])
    await refused(ackEvents(db(), type, row?.position ?? ''), 'JE001')
    await refused(one(db(), `select fencepost.seek_consumer($1, 'now')`, [type]), 'JE001')
    await refused(one(db(), 'select fencepost.drop_consumer($1)', [type]), 'JE001')
    await reader.rollback()
    expect(await readEvents(db(), type)).toHaveLength(1)
  })

  it('is refused in an old snapshot, which does not see who was there meanwhile', async () => {
    const type = await setUp()
    await enqueue(db(), type)
    await moveClock(db(), '1 second')
    const [event] = await readEvents(db(), type)
    await using reader = await open()
    for (const call of [
      `select * from fencepost.read_events($1)`,
      `select fencepost.ack_events($1, '${event?.position}')`,
      `select fencepost.seek_consumer($1, 'now')`,
      `select fencepost.drop_consumer($1)`,
    ]) {
      await reader.begin('repeatable read')
      await refused(reader.query(call, [type]), 'JE003')
      await reader.rollback()
    }
  })

  it('that was slow is refused also when the other one is done', async () => {
    const type = await setUp()
    await enqueue(db(), type)
    await moveClock(db(), '1 second')
    const [slow] = await readEvents(db(), type, 10, 'slow')
    await moveClock(db(), '1 minute')
    const [quick] = await readEvents(db(), type, 10, 'quick')
    await ackEvents(db(), type, quick?.position ?? '')
    await refused(ackEvents(db(), type, slow?.position ?? ''), 'JE001')
  })
})
