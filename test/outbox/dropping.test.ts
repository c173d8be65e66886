import { beforeEach, describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { enqueue, freshType } from '../support/engine.ts'
import { ackEvents, createConsumer, publishing, readEvents } from '../support/outbox.ts'
import { sabotage } from '../support/sabotage.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one, refused } from '../support/sql.ts'

// What meets a consumer or a webhook while it is dropped hears that there is none, whoever comes first.

const database = ownDatabase()
const db = () => database.db

let name: string
let position: string

/** A consumer whose reader has one event and more to come. */
beforeEach(async () => {
  name = await publishing(db(), freshType())
  await createConsumer(db(), name, { types: [name] })
  await enqueue(db(), name)
  await enqueue(db(), name)
  await moveClock(db(), '1 second')
  const [event] = await readEvents(db(), name, 1)
  position = event?.position ?? ''
})

const DROP = 'select fencepost.drop_consumer($1) as dropped'
const moves: readonly [what: string, text: string, params: () => readonly unknown[]][] = [
  ['acknowledges', 'select fencepost.ack_events($1, $2)', () => [name, position]],
  ['sets an event aside', `select fencepost.park_event($1, $2, 'x')`, () => [name, position]],
  ['moves it', `select fencepost.seek_consumer($1, 'beginning')`, () => [name]],
]

describe('a consumer that is being dropped', () => {
  it.each(moves)('is not there for who %s', async (_what, text, params) => {
    await using dropper = await Session.open(database.url)
    await using other = await Session.open(database.url)
    await dropper.begin()
    await dropper.query(DROP, [name])
    const waiting = await other.blocks(text, params())
    await dropper.commit()
    await refused(waiting.answer, 'JE002')
  })

  it.each(moves)('waits for who %s, and is dropped then', async (_what, text, params) => {
    await using dropper = await Session.open(database.url)
    await using other = await Session.open(database.url)
    await other.begin()
    await other.query(text, params())
    const waiting = await dropper.blocks(DROP, [name])
    await other.commit()
    expect(await waiting.answer).toEqual([{ dropped: true }])
    const left = `select count(*) from fencepost_private.parked_event where consumer_id not in (select consumer_id from fencepost_private.consumer)`
    expect(await one(db(), left)).toBe(0)
  })

  it('gives its reader nothing, and is not there for it afterwards', async () => {
    await using dropper = await Session.open(database.url)
    await dropper.begin()
    await dropper.query(DROP, [name])
    expect(await readEvents(db(), name)).toEqual([])
    await dropper.commit()
    await refused(readEvents(db(), name), 'JE002')
  })

  it('is not there for a reader that had found it', async () => {
    // the reader stops between finding the consumer and locking it
    await sabotage(
      db(),
      'check_read(int, interval)',
      'begin\n',
      'begin\n  perform pg_advisory_xact_lock_shared(99, 1);\n',
    )
    await using gate = await Session.open(database.url)
    await using reader = await Session.open(database.url)
    await gate.query('select pg_advisory_lock(99, 1)')
    const reading = await reader.blocks('select * from fencepost.read_events($1)', [name])
    expect(await one(db(), DROP, [name])).toBe(true)
    await gate.query('select pg_advisory_unlock(99, 1)')
    await refused(reading.answer, 'JE002')
  })

  it('is dropped once: the second finds none', async () => {
    await using first = await Session.open(database.url)
    await using second = await Session.open(database.url)
    await first.begin()
    await first.query(DROP, [name])
    const waiting = await second.blocks(DROP, [name])
    await first.commit()
    expect(await waiting.answer).toEqual([{ dropped: false }])
  })

  it('can be made anew by who waits for that', async () => {
    await using dropper = await Session.open(database.url)
    await using maker = await Session.open(database.url)
    await dropper.begin()
    await dropper.query(DROP, [name])
    const waiting = await maker.blocks('select fencepost.create_consumer($1) as made', [name])
    await dropper.commit()
    expect(await waiting.answer).toEqual([{ made: true }])
  })
})

describe('a consumer that is moved', () => {
  it('gives a reader nothing until then, and who had read it has lost the lease', async () => {
    await using mover = await Session.open(database.url)
    await using reader = await Session.open(database.url)
    await mover.begin()
    await mover.query(`select fencepost.seek_consumer($1, 'beginning')`, [name])
    expect(await readEvents(db(), name)).toEqual([])
    const waiting = await reader.blocks('select fencepost.ack_events($1, $2)', [name, position])
    await mover.commit()
    await refused(waiting.answer, 'JE001')
    const last = (await readEvents(db(), name)).at(-1)
    expect(await ackEvents(db(), name, last?.position ?? '')).toBe(true)
  })
})

describe('a webhook that is being dropped', () => {
  const DROP_WEBHOOK = 'select fencepost.drop_webhook($1) as dropped'
  const deliveries = () =>
    one<number>(
      db(),
      `select count(*) from fencepost.jobs where type = 'fencepost.webhook.' || $1 and status = 'pending'`,
      [name],
    )
  beforeEach(async () => {
    await db().query(
      `select fencepost.create_webhook($1, 'https://example.com/', jsonb_build_object('types', array[$1]))`,
      [name],
    )
    await enqueue(db(), name)
    await moveClock(db(), '1 second')
  })

  it.each([
    ['configures', 'select fencepost.configure_webhook($1, paused => true)'],
    ['gives it a filter', `select fencepost.configure_webhook($1, filter => '{}')`],
    ['gives it a secret', 'select fencepost.rotate_webhook_secret($1)'],
  ])('is not there for who %s', async (_what, text) => {
    await using dropper = await Session.open(database.url)
    await using other = await Session.open(database.url)
    await dropper.begin()
    await dropper.query(DROP_WEBHOOK, [name])
    const waiting = await other.blocks(text, [name])
    await dropper.commit()
    await refused(waiting.answer, 'JE002')

    await db().query(`select fencepost.create_webhook($1, 'https://example.com/')`, [name])
    await other.begin()
    await other.query(text, [name])
    const dropping = await dropper.blocks(DROP_WEBHOOK, [name])
    await other.commit()
    expect(await dropping.answer).toEqual([{ dropped: true }])
  })

  it('is passed over by a relay', async () => {
    await using dropper = await Session.open(database.url)
    await dropper.begin()
    await dropper.query(DROP_WEBHOOK, [name])
    expect(await one(db(), 'select fencepost.relay_webhooks()')).toBe(0)
    await dropper.commit()
    expect(await one(db(), 'select fencepost.relay_webhooks()')).toBe(0)
    expect(await deliveries()).toBe(0)
  })

  it('waits for a relay, whose deliveries it cancels', async () => {
    await using relay = await Session.open(database.url)
    await using dropper = await Session.open(database.url)
    await relay.begin()
    expect(await relay.query('select fencepost.relay_webhooks() as taken')).toEqual([{ taken: 1 }])
    const dropping = await dropper.blocks(DROP_WEBHOOK, [name])
    await relay.commit()
    expect(await dropping.answer).toEqual([{ dropped: true }])
    expect(await deliveries()).toBe(0)
  })
})
