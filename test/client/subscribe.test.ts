import { describe, expect, it } from 'vitest'
import type { EventBatch, LogEvent } from '../../src/index.ts'
import { moveClock } from '../support/clock.ts'
import { refused } from '../support/sql.ts'
import { jobsOf, quiet, reading } from './reading.ts'

const { db, engine, fresh, put, read, ledger } = reading()

describe('subscribe', () => {
  it('gives all events in batches, in order, and ends with the signal', async () => {
    const name = await fresh()
    const ids = await put(name, 25)
    const stop = new AbortController()
    const seen: LogEvent[][] = []
    for await (const batch of engine().subscribe(name, {
      ...quiet,
      max: 10,
      signal: stop.signal,
    })) {
      seen.push([...batch.events])
      await batch.ack()
      expect(batch.acknowledged).toBe(true)
      if (seen.flat().length === 25) stop.abort()
    }
    expect(jobsOf(seen.flat())).toEqual(ids)
    expect(seen.map(({ length }) => length)).toEqual([10, 10, 5])
    expect(seen[0]?.[0]).toMatchObject({ kind: 'job.enqueued', type: name, at: expect.any(Date) })
  })

  it('waits for what comes later', async () => {
    const name = await fresh()
    const reading = read(name, 2)
    const ids = await put(name, 2)
    expect(jobsOf(await reading)).toEqual(ids)
  })

  it('gives a batch again that was not acknowledged, and the rest of one that was in part', async () => {
    const name = await fresh()
    const ids = await put(name, 3)
    const seen: (number | null)[][] = []
    for await (const batch of engine().subscribe(name, quiet)) {
      seen.push(jobsOf(batch.events))
      if (seen.length === 2) await batch.ack({ upTo: batch.events[0] as LogEvent })
      if (seen.length === 3) break
    }
    expect(seen).toEqual([ids, ids, ids.slice(1)])
  })

  it('acknowledges in a transaction of the application, or not at all', async () => {
    const name = await fresh()
    const ids = await put(name, 2)
    let rounds = 0
    for await (const batch of engine().subscribe(name, quiet)) {
      const work = db().transaction(async (tx) => {
        for (const { id } of batch.events) {
          await tx.query('insert into ledger values ($1, $2)', [id, name])
        }
        await batch.ack({ tx })
        if (++rounds === 1) throw new Error('not this time')
      })
      if (rounds === 0) await expect(work).rejects.toThrow('not this time')
      else await work
      if (rounds === 2) break
    }
    expect(await ledger(name)).toHaveLength(ids.length)
    expect(await engine().consumer(name)).toMatchObject({ lagEvents: 0 })
  })

  it('gives way when its lease has ended: its late acknowledgement is refused with JE001', async () => {
    const name = await fresh()
    const ids = await put(name, 2)
    const slow = engine().subscribe(name, { ...quiet, reader: 'slow', lease: '1m' })
    const { value: batch } = (await slow.next()) as { value: EventBatch }
    expect(await engine().consumer(name)).toMatchObject({ reader: 'slow' })
    await moveClock(db(), '2 minutes')
    expect(jobsOf(await read(name, 2))).toEqual(ids)
    const more = await put(name, 1)
    // passed already, but by somebody else: what was done here is to be undone
    await refused(batch.ack(), 'JE001')
    await engine().seekConsumer(name, 'beginning')
    await refused(batch.ack(), 'JE001')
    await refused(batch.park(batch.events[0] as LogEvent, 'too late'), 'JE001')
    await slow.return()
    expect(jobsOf(await read(name, 3))).toEqual([...ids, ...more])
  })

  it('refuses what is no event of it, and to set one aside without a reason', async () => {
    const name = await fresh()
    await put(name, 1)
    for await (const batch of engine().subscribe(name, quiet)) {
      const [event] = batch.events as [LogEvent]
      for (const wrong of [{}, null, 'it', undefined] as never[]) {
        if (wrong !== undefined) await refused(batch.ack({ upTo: wrong }), 'JE003')
        await refused(batch.park(wrong, 'why'), 'JE003')
      }
      for (const reason of [undefined, null, 7, ' '] as never[]) {
        await refused(batch.park(event, reason), 'JE003')
      }
      expect(batch.acknowledged).toBe(false)
      break
    }
    expect(await engine().consumer(name)).toMatchObject({ lagEvents: 1, parked: 0 })
  })

  it('sets events aside, which come again when they are wanted', async () => {
    const name = await fresh()
    const [first, second] = await put(name, 2)
    for await (const batch of engine().subscribe(name, quiet)) {
      await batch.park(batch.events[0] as LogEvent, 'too large')
      await batch.ack()
      break
    }
    const [parked] = await engine().parkedEvents(name)
    expect(parked).toMatchObject({ consumer: name, jobId: first, reason: 'too large', times: 1 })
    expect(await engine().replayParked(name, [parked?.eventId ?? 0])).toBe(1)
    expect(jobsOf(await read(name, 1))).toEqual([first])
    expect(await engine().parkedEvents(name)).toEqual([])
    expect(await engine().discardParked(name)).toBe(0)
    expect(second).toBeGreaterThan(first as number)
  })
})
