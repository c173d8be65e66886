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
  type Told,
} from '../support/outbox.ts'
import { ownDatabase } from '../support/server.ts'
import { one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => restoreClock(db()))

const setUp = async (count: number) => {
  const type = await publishing(db(), freshType())
  await createConsumer(db(), type, { types: [type] })
  for (let index = 0; index < count; index++) await enqueue(db(), type)
  await moveClock(db(), '1 second')
  return type
}
const park = (type: string, event: Told | undefined, reason = 'too large') =>
  db().query('select fencepost.park_event($1, $2, $3)', [type, event?.position, reason])
const replay = (type: string, ids: readonly number[] | null = null) =>
  one<number>(db(), 'select fencepost.replay_parked($1, $2)', [type, ids])
const ids = (events: readonly Told[]) => events.map((event) => event.id)

describe('an event that cannot be delivered', () => {
  it('is set aside whole, with its reason, and the reader goes on', async () => {
    const type = await setUp(3)
    const events = await readEvents(db(), type)
    await park(type, events[1])
    await ackEvents(db(), type, events[2]?.position ?? '')
    expect(await drainEvents(db(), type)).toEqual([])
    expect(await consumerState(db(), type)).toMatchObject({ parked: 1, lag_events: 0 })
    const [row] = await db().query(
      'select event_id, kind, type, job_id, reason, times, again from fencepost.parked_events where consumer = $1',
      [type],
    )
    expect(row).toEqual({
      event_id: events[1]?.id,
      kind: 'job.enqueued',
      type,
      job_id: events[1]?.job_id,
      reason: 'too large',
      times: 1,
      again: false,
    })
  })

  it('comes again when it is replayed, as it was, before anything else; then it is gone', async () => {
    const type = await setUp(3)
    const events = await readEvents(db(), type)
    await park(type, events[0])
    await park(type, events[2])
    await ackEvents(db(), type, events[2]?.position ?? '')
    await enqueue(db(), type)
    expect(await replay(type, [events[2]?.id ?? 0])).toBe(1)
    const again = await readEvents(db(), type)
    expect(again.map(({ position, ...event }) => event)).toEqual(
      events.slice(2).map(({ position, ...event }) => event),
    )
    expect(await readEvents(db(), type, 100, 'another')).toEqual([])
    expect(await ackEvents(db(), type, again[0]?.position ?? '')).toBe(true)
    expect(await ackEvents(db(), type, again[0]?.position ?? '')).toBe(false)
    expect(await replay(type)).toBe(1)
    const rest = await drainEvents(db(), type)
    expect(ids(rest).slice(0, 1)).toEqual(ids(events).slice(0, 1))
    expect(rest).toHaveLength(2)
    expect(await consumerState(db(), type)).toMatchObject({ parked: 0 })
  })

  it('comes again also when an earlier one was being read again meanwhile', async () => {
    const type = await setUp(3)
    const events = await readEvents(db(), type)
    for (const event of events) await park(type, event)
    await ackEvents(db(), type, events[2]?.position ?? '')
    await replay(type, [events[2]?.id ?? 0])
    const [again] = await readEvents(db(), type)
    await replay(type, [events[0]?.id ?? 0])
    await ackEvents(db(), type, again?.position ?? '')
    expect(ids(await drainEvents(db(), type))).toEqual(ids(events).slice(0, 1))
    expect(await consumerState(db(), type)).toMatchObject({ parked: 1 })
  })

  it('is set aside again when it fails again, and is discarded when somebody says so', async () => {
    const type = await setUp(1)
    const [event] = await readEvents(db(), type)
    await park(type, event)
    await ackEvents(db(), type, event?.position ?? '')
    await replay(type)
    const [again] = await readEvents(db(), type)
    await park(type, again, 'still too large')
    await ackEvents(db(), type, again?.position ?? '')
    expect(await consumerState(db(), type)).toMatchObject({ reader: null })
    const look = 'select reason, times, again from fencepost.parked_events where consumer = $1'
    expect(await db().query(look, [type])).toEqual([
      { reason: 'still too large', times: 2, again: false },
    ])
    expect(await one(db(), 'select fencepost.discard_parked($1)', [type])).toBe(1)
    expect(await replay(type)).toBe(0)
  })

  it('is set aside by who holds the lease only, with a reason', async () => {
    const type = await setUp(1)
    const [event] = await readEvents(db(), type, 1, 'slow')
    await refused(park(type, event, '  '), 'JE003')
    await refused(db().query(`select fencepost.park_event($1, '1.0-2.0-7', 'x')`, [type]), 'JE001')
    await refused(
      db().query(`select fencepost.park_event($1, $2, 'x')`, [
        type,
        event?.position.replace(/-\d+~/, '-999999999~'),
      ]),
      'JE002',
    )
    await moveClock(db(), '1 minute')
    await readEvents(db(), type, 1, 'quick')
    await refused(park(type, event), 'JE001')
    await refused(replay('nobody'), 'JE002')
    await refused(one(db(), `select fencepost.discard_parked('nobody')`), 'JE002')
  })
})
