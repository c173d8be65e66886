import { beforeEach, describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { enqueue, freshType } from '../support/engine.ts'
import {
  ackEvents,
  createConsumer,
  drainEvents,
  publishing,
  readEvents,
} from '../support/outbox.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { column, one } from '../support/sql.ts'

// Ticks are thinned under readers that go on reading. Those stand on ticks, and what they do is not committed yet.

const database = ownDatabase()
const db = () => database.db

let type: string
beforeEach(async () => {
  type = await publishing(db(), freshType())
  await db().query(`select fencepost.drop_consumer(name) from fencepost.consumers`)
})
const consumer = async (name: string) => {
  await createConsumer(db(), name, { types: [type] })
  return name
}
/** Twenty events, each with a tick of its own, all within one second or two: all but a few are to go when they are old. */
const busy = async () => {
  for (let index = 0; index < 20; index++) {
    await enqueue(db(), type)
    await db().query(`select fencepost_private.tick('0')`)
  }
}
const ids = (events: readonly { id: number }[]) => events.map(({ id }) => id)
/** maintain(), with what it holds still held. */
const maintaining = async (session: Session) => {
  await session.begin()
  return session.query<{ step: string; done: number }>('select * from fencepost.maintain()')
}
const held = (session: Session) =>
  column<string>(
    db(),
    `select c.name from pg_locks l join fencepost_private.consumer c on c.consumer_id = l.objid::bigint
     where l.pid = $1 and l.locktype = 'advisory' and l.classid::bigint = fencepost_private.lock_consumer()`,
    [session.pid],
  )

describe('while ticks are thinned', () => {
  it('who is not behind reads and acknowledges as ever', async () => {
    const name = await consumer('quick')
    await busy()
    await drainEvents(db(), name)
    await moveClock(db(), '2 minutes')
    await enqueue(db(), type)
    await drainEvents(db(), name)
    await enqueue(db(), type)
    await moveClock(db(), '1 second')

    await using keeper = await Session.open(database.url)
    const done = (await maintaining(keeper)).find(({ step }) => step === 'prune_ticks')?.done
    expect(done).toBeGreaterThan(10)
    expect(await held(keeper)).toEqual([])
    const [event] = await readEvents(db(), name)
    expect(await ackEvents(db(), name, event?.position ?? '')).toBe(true)
    await keeper.commit()
  })

  it('who is behind is held, by the last step, and gets each event once', async () => {
    const name = await consumer('slow')
    await busy()
    await moveClock(db(), '2 minutes')
    await using keeper = await Session.open(database.url)
    const steps = await maintaining(keeper)
    expect(steps.at(-1)).toMatchObject({ step: 'prune_ticks', done: expect.any(Number) })
    expect(await held(keeper)).toEqual([name])
    expect(await readEvents(db(), name)).toEqual([])
    await keeper.commit()
    expect(await drainEvents(db(), name, 3)).toHaveLength(20)
  })

  it('who is behind and reads at the same time gets each event once', async () => {
    const name = await consumer('reading')
    await busy()
    await moveClock(db(), '2 minutes')
    await using reader = await Session.open(database.url)
    await reader.begin()
    const events = await reader.query<{ id: number; position: string }>(
      'select * from fencepost.read_events($1, 7)',
      [name],
    )
    await reader.query('select fencepost.ack_events($1, $2)', [name, events[3]?.position])
    await db().query('select fencepost_private.prune_ticks()')
    await reader.commit()
    await moveClock(db(), '1 minute')
    const rest = await drainEvents(db(), name)
    expect([...ids(events.slice(0, 4)), ...ids(rest)]).toHaveLength(20)
    expect(new Set([...ids(events), ...ids(rest)]).size).toBe(20)
  })

  it('no other step holds a consumer, but the one that serves webhooks', async () => {
    await consumer('idle')
    await busy()
    await moveClock(db(), '2 minutes')
    const calls = await db().query<{ step: string; call: string }>(
      `select step, call from fencepost_private.maintain_step order by ordinal`,
    )
    await using keeper = await Session.open(database.url)
    const holding: string[] = []
    for (const { step, call } of calls) {
      await keeper.begin()
      await keeper.query(`select fencepost_private.${call}`)
      if ((await held(keeper)).length > 0) holding.push(step)
      await keeper.rollback()
    }
    expect(holding).toEqual(['prune_ticks'])
    expect(calls.at(-1)?.step).toBe('prune_ticks')
    expect(await one(db(), 'select count(*) from fencepost.consumers')).toBe(1)
  })
})

describe('a consumer beyond its max_lag', () => {
  it('is held until it is marked, and no other is', async () => {
    await db().query(
      `select fencepost.create_consumer('late', jsonb_build_object('types', array[$1::text]), max_lag => '1 day')`,
      [type],
    )
    await consumer('patient')
    await busy()
    await moveClock(db(), '2 days')
    await using keeper = await Session.open(database.url)
    await keeper.begin()
    expect(await keeper.query('select fencepost_private.expire_consumers() as n')).toEqual([
      { n: 1 },
    ])
    expect(await held(keeper)).toEqual(['late'])
    await keeper.rollback()

    // one that is being moved is left for the next time
    await using reader = await Session.open(database.url)
    await reader.begin()
    await reader.query(`select fencepost.seek_consumer('late', 'now')`)
    expect(await one(db(), 'select fencepost_private.expire_consumers()')).toBe(0)
    await reader.rollback()
    expect(await one(db(), 'select fencepost_private.expire_consumers()')).toBe(1)
  })
})
