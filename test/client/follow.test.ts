import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Fencepost, type LogEvent } from '../../src/index.ts'
import { startProxy, type TcpProxy } from '../support/proxy.ts'
import { one } from '../support/sql.ts'
import { jobsOf, quiet, reading } from './reading.ts'

const { database, db, engine, fresh, put } = reading()

describe('follow', () => {
  it('gives events from a position on, without a gap', async () => {
    const name = await fresh()
    const filter = { types: [name] }
    const ids = await put(name, 5)
    const first: LogEvent[] = []
    for await (const event of engine().follow({ ...quiet, filter, after: 'beginning', max: 2 })) {
      first.push(event)
      if (first.length === 3) break
    }
    const after = first[2]?.position ?? ''
    const rest: LogEvent[] = []
    for await (const event of engine().follow({ ...quiet, filter, after })) {
      rest.push(event)
      if (rest.length === 2) break
    }
    expect(jobsOf([...first, ...rest])).toEqual(ids)
  })

  it('begins now, unless told otherwise, and ends with the signal', async () => {
    const name = await fresh()
    await put(name, 1)
    const stop = new AbortController()
    await using own = new Fencepost({ url: database.url, applicationName: name.slice(0, 63) })
    const following = own.follow({ ...quiet, filter: { types: [name] }, signal: stop.signal })
    const next = following.next()
    const looks = `select count(*) from pg_stat_activity where application_name = $1 and query like '%list_events%'`
    await expect.poll(() => one(db(), looks, [name.slice(0, 63)])).toBeGreaterThan(0)
    const ids = await put(name, 1)
    expect((await next).value).toMatchObject({ jobId: ids[0] })
    stop.abort()
    expect(await following.next()).toEqual({ done: true, value: undefined })
  })
})

describe('a network that fails', () => {
  let proxy: TcpProxy
  let remote: Fencepost
  beforeAll(async () => {
    proxy = await startProxy(database.url)
    remote = new Fencepost({ url: proxy.url })
  })
  afterAll(async () => {
    await remote.close()
    await proxy.close()
  })

  it('is survived by a subscription, and by an acknowledgement under way', async () => {
    const name = await fresh()
    const ids = await put(name, 6)
    const seen: (number | null)[] = []
    for await (const batch of remote.subscribe(name, { ...quiet, max: 2, reader: 'r' })) {
      seen.push(...jobsOf(batch.events))
      proxy.reset()
      await batch.ack()
      proxy.reset()
      if (seen.length >= 6) break
    }
    expect(seen).toEqual(ids)
  })

  it('is survived by one who follows', async () => {
    const name = await fresh()
    const ids = await put(name, 3)
    const filter = { types: [name] }
    const seen: (number | null)[] = []
    for await (const event of remote.follow({ ...quiet, filter, after: 'beginning', max: 1 })) {
      seen.push(event.jobId)
      proxy.reset()
      if (seen.length === 3) break
    }
    expect(seen).toEqual(ids)
  })
})
