import { describe, expect, it } from 'vitest'
import { Fencepost, type LogEvent, PermanentError } from '../../src/index.ts'
import { freshRole } from '../support/role.ts'
import { jobsOf, quiet, reading } from './reading.ts'

const { database, db, engine, fresh, put, ledger, caughtUp } = reading()

describe('consume', () => {
  /** Consumes until nothing is left. */
  async function consumed(
    name: string,
    handler: Parameters<Fencepost['consume']>[1],
    options: Parameters<Fencepost['consume']>[2] = {},
    from: Fencepost = engine(),
  ): Promise<void> {
    const stop = new AbortController()
    const running = from.consume(name, handler, { ...quiet, ...options, signal: stop.signal })
    await Promise.race([caughtUp(name), running])
    stop.abort()
    await running
  }

  it.each([
    ['transactions that met', '40P01'],
    ['a full disk', '53100'],
    ['a lock that was not to be had', '55P03'],
    ['a statement that took too long', '57014'],
    ['a failing device', '58030'],
  ])('blames no event for %s', async (_what, code) => {
    const name = await fresh()
    await put(name, 4)
    const sizes: number[] = []
    await consumed(
      name,
      async (events, tx) => {
        sizes.push(events.length)
        if (sizes.length < 4)
          await tx.query(`do $$ begin raise exception using errcode = '${code}'; end $$`)
      },
      { maxAttempts: 1 },
    )
    // fewer at a time, as they may have been too many
    expect(sizes.slice(0, 4)).toEqual([4, 2, 1, 1])
    expect(await engine().parkedEvents(name)).toEqual([])
  })

  it.each([
    ['an object in another state', '55000', "select currval('never_used')"],
    [
      'a value that its type has only after the commit',
      '55P04',
      "alter type colour add value 'blue'; select 'blue'::colour",
    ],
    ['a file that is not there', '58P01', "select pg_read_file('no_such_file')"],
  ])('parks an event whose statement never works for %s', async (_what, code, text) => {
    await db().query(
      "create sequence if not exists never_used; drop type if exists colour; create type colour as enum ('red')",
    )
    const name = await fresh()
    const [id] = await put(name, 1)
    const thrown: unknown[] = []
    await consumed(
      name,
      (_events, tx) =>
        tx.query(text).catch((error) => {
          thrown.push(error)
          throw error
        }),
      { maxAttempts: 2 },
    )
    expect(thrown).toMatchObject([{ code }, { code }])
    expect(await engine().parkedEvents(name)).toMatchObject([{ jobId: id }])
  })

  it('parks none when its role may not acknowledge, and ends', async () => {
    const name = await fresh()
    await put(name, 2)
    await using role = await freshRole(database.url)
    const ack = 'function fencepost.ack_events'
    await db().query(
      `grant usage on schema fencepost to ${role.name}; revoke execute on ${ack} from public`,
    )
    await using theirs = new Fencepost({ url: role.url })
    await expect(consumed(name, () => {}, { maxAttempts: 1 }, theirs)).rejects.toMatchObject({
      code: 'JE009',
    })
    await db().query(`grant execute on ${ack} to public`)
    expect(await engine().parkedEvents(name)).toEqual([])
  })

  it('commits what the handler writes with the acknowledgement, once', async () => {
    const name = await fresh()
    await put(name, 30)
    let calls = 0
    await consumed(
      name,
      async (events, tx) => {
        for (const { id } of events) {
          await tx.query('insert into ledger values ($1, $2)', [id, name])
        }
        if (++calls === 2) throw new Error('a bad day')
      },
      { max: 10 },
    )
    expect(calls).toBeGreaterThan(4)
    const ids = await ledger(name)
    expect(ids).toHaveLength(30)
    expect(new Set(ids).size).toBe(30)
  })

  it('finds the event that fails in its batch, tries it again, and parks it', async () => {
    const name = await fresh()
    const ids = await put(name, 9)
    const bad = ids[4] as number
    const done: (number | null)[] = []
    let alone = 0
    await consumed(
      name,
      (events) => {
        if (jobsOf(events).includes(bad)) {
          if (events.length === 1) alone++
          throw new Error('this one never works')
        }
        done.push(...jobsOf(events))
      },
      { maxAttempts: 3 },
    )
    expect(alone).toBe(3)
    expect(done).toEqual(ids.filter((id) => id !== bad))
    expect(await engine().parkedEvents(name)).toMatchObject([
      { jobId: bad, reason: 'this one never works' },
    ])
  })

  it('parks at once what its handler calls permanent', async () => {
    const name = await fresh()
    const [id] = await put(name, 1)
    let calls = 0
    await consumed(name, () => {
      calls++
      throw new PermanentError('no such account')
    })
    expect(calls).toBe(1)
    expect(await engine().parkedEvents(name)).toMatchObject([
      { jobId: id, reason: 'no such account' },
    ])
  })

  it('parks with a reason whatever its handler throws', async () => {
    const name = await fresh()
    const thrown = [
      new Error(' '),
      new Error('NUL \0 and half \ud83d'),
      '',
      undefined,
      Object.create(null),
      Symbol('odd'),
      new AggregateError([new Error('no route'), new Error('refused')]),
    ]
    const ids = await put(name, thrown.length)
    await consumed(
      name,
      ([event]) => {
        throw thrown[ids.indexOf(event?.jobId as number)]
      },
      { max: 1, maxAttempts: 1 },
    )
    const parked = await engine().parkedEvents(name)
    expect(parked.map(({ jobId }) => jobId)).toEqual(ids)
    expect(parked.map(({ reason }) => reason)).toEqual([
      'it failed',
      'NUL ␀ and half \ufffd',
      'the handler threw an empty text',
      'the handler threw undefined',
      'the handler threw an object: {}',
      'the handler threw Symbol(odd)',
      'no route; refused',
    ])
  })

  it('goes on after its connections were killed, at any time, without losing or repeating', async () => {
    const name = await fresh()
    await using elsewhere = new Fencepost({ url: database.url, applicationName: 'mortal' })
    let kills = 0
    await put(name, 40)
    await consumed(
      name,
      async (events, tx) => {
        for (const { id } of events) {
          await tx.query('insert into ledger values ($1, $2)', [id, name])
        }
        if (kills++ < 3) {
          await db().query(
            `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'mortal' and datname = current_database()`,
          )
        }
      },
      { max: 10 },
      elsewhere,
    )
    const ids = await ledger(name)
    expect(ids).toHaveLength(40)
    expect(new Set(ids).size).toBe(40)
  })

  it('lets one process at a time work, and another take over', async () => {
    const name = await fresh()
    await put(name, 6)
    const seen: string[] = []
    let inside = 0
    const worker = (who: string) => async (events: readonly LogEvent[]) => {
      expect(++inside).toBe(1)
      await Promise.resolve()
      seen.push(...events.map(() => who))
      inside--
    }
    const stop = new AbortController()
    const both = ['one', 'two'].map((who) =>
      engine().consume(name, worker(who), { ...quiet, max: 1, signal: stop.signal }),
    )
    await caughtUp(name)
    stop.abort()
    await Promise.all(both)
    expect(seen).toHaveLength(6)
  })

  it('ends with its engine, after the transaction under way', async () => {
    const name = await fresh()
    await put(name, 1)
    const own = new Fencepost({ url: database.url })
    let closed: Promise<void> | undefined
    const running = own.consume(
      name,
      async (events, tx, signal) => {
        closed = own.close()
        expect(signal.aborted).toBe(true)
        await tx.query('insert into ledger values ($1, $2)', [events[0]?.id, name])
      },
      quiet,
    )
    await running
    await closed
    expect(await ledger(name)).toHaveLength(1)
  })
})
