import { describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { freshType } from '../support/engine.ts'
import { publishing } from '../support/outbox.ts'
import { refused } from '../support/sql.ts'
import { jobsOf, quiet, reading } from './reading.ts'

const { db, engine, fresh, put, read } = reading()

describe('a consumer', () => {
  it('is made once, looked at, moved and dropped', async () => {
    const name = await fresh()
    expect(await engine().createConsumer(name, { filter: { types: [name] } })).toBe(false)
    await refused(
      engine().createConsumer(name, { filter: { types: [name] }, maxLag: '1h' }),
      'JE004',
    )
    const ids = await put(name, 3)
    expect(await engine().consumer(name)).toMatchObject({
      name,
      lagEvents: 3,
      maxLag: '7 days',
      types: [name],
      parked: 0,
      expiredAt: null,
    })
    expect((await engine().consumers()).map((each) => each.name)).toContain(name)
    expect(await engine().seekConsumer(name, 'now')).toMatch(/\S/)
    expect(await engine().consumer(name)).toMatchObject({ lagEvents: 0 })
    await engine().seekConsumer(name, new Date(0))
    expect(jobsOf(await read(name, 3))).toEqual(ids)
    expect(await engine().dropConsumer(name)).toBe(true)
    expect(await engine().dropConsumer(name)).toBe(false)
    expect(await engine().consumer(name)).toBeUndefined()
    await refused(engine().seekConsumer(name, 'now'), 'JE002')
  })

  it('takes options that make sense', async () => {
    await engine().createConsumer('for.ever', { maxLag: null, start: 'beginning' })
    expect(await engine().consumer('for.ever')).toMatchObject({ maxLag: null, types: null })
    await refused(engine().createConsumer('two words'), 'JE003')
    await refused(engine().createConsumer('a', { max: 1 } as never), 'JE003')
    await refused(engine().consume('a', 'handler' as never), 'JE003')
    const { message } = await refused(engine().consume('a', undefined as never), 'JE003')
    expect(message).toBe('consume: handler must be a function')
    const never = new Date('x')
    await refused(engine().createConsumer('a', { start: never }), 'JE003')
    await refused(engine().seekConsumer('for.ever', never), 'JE003')
    await refused(engine().seekConsumer('for.ever', undefined as never), 'JE003')
    await refused(engine().follow({ after: never }).next(), 'JE003')
    expect(() => engine().subscribe('a', { lease: 10 })).toThrow(/lease must be at least 1000 ms/)
    await refused(
      engine()
        .follow({ filter: { kinds: ['job.complete'] } })
        .next(),
      'JE003',
    )
    await refused(engine().follow({ after: 'yesterday' }).next(), 'JE003')
  })

  it('that does not exist is JE002, whoever wants to read it', async () => {
    await refused(engine().subscribe('nobody', quiet).next(), 'JE002')
    await refused(
      engine().consume('nobody', () => {}, quiet),
      'JE002',
    )
    await refused(engine().replayParked('nobody'), 'JE002')
    await refused(engine().discardParked('nobody'), 'JE002')
  })

  it('that has expired ends its readers with JE004', async () => {
    const name = freshType()
    await engine().createConsumer(name, { maxLag: '1h', start: 'beginning' })
    await put(await publishing(db(), name), 1)
    await moveClock(db(), '2 hours')
    await db().query('select fencepost_private.expire_consumers()')
    await refused(engine().subscribe(name, quiet).next(), 'JE004')
    await refused(
      engine().consume(name, () => {}, quiet),
      'JE004',
    )
  })
})
