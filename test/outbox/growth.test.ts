import { beforeAll, describe, expect, it } from 'vitest'
import { moveClock } from '../support/clock.ts'
import { enqueueBatch, freshType } from '../support/engine.ts'
import { createConsumer, readEvents } from '../support/outbox.ts'
import { ownDatabase } from '../support/server.ts'
import { Session } from '../support/sessions.ts'
import { one } from '../support/sql.ts'

// Costs are counted: pages that a read touches, rows and locks of a completion. Noise does not change these numbers.

const database = ownDatabase()
const db = () => database.db

/** Writes events in transactions of their own, with a tick now and then, as if the engine had been busy. */
async function write(transactions: number, events: number, ticks: number): Promise<void> {
  await using session = await Session.open(database.url)
  await session.query(`
    do $$
    begin
      for n in 1..${transactions} loop
        insert into fencepost_private.event (xid, at, kind, job_id)
        select fencepost_private.xid(), fencepost_private.now(), 'job.completed', n from generate_series(1, ${events});
        commit;
        if n % ${Math.ceil(transactions / ticks)} = 0 then
          perform fencepost_private.tick('0');
          commit;
        end if;
      end loop;
    end
    $$`)
}

interface Answer {
  readonly 'QUERY PLAN': {
    readonly Plan: {
      'Shared Hit Blocks': number
      'Shared Read Blocks': number
      'Actual Rows': number
    }
  }[]
}

/** Pages that one event costs its reader, read a thousand at a time and acknowledged: the median of `times` reads. */
async function pagesAnEvent(
  consumer: string,
  times: number,
  before = async () => {},
): Promise<number> {
  await using session = await Session.open(database.url)
  const costs: number[] = []
  for (let n = 0; n < times; n++) {
    await before()
    await moveClock(db(), '1 second')
    const [row] = await session.query<Answer>(
      `explain (analyze, buffers, timing off, format json) select * from fencepost.read_events('${consumer}', 1000, 'counter')`,
    )
    const plan = row?.['QUERY PLAN'][0]?.Plan
    if (plan && plan['Actual Rows'] > 500) {
      costs.push((plan['Shared Hit Blocks'] + plan['Shared Read Blocks']) / plan['Actual Rows'])
    }
    const last = (await readEvents(db(), consumer, 1000, 'counter')).at(-1)
    await session.query('select fencepost.ack_events($1, $2)', [consumer, last?.position])
  }
  costs.sort((a, b) => a - b)
  expect(costs.length).toBeGreaterThan(times / 2)
  return costs[costs.length >> 1] as number
}

// Without a tick among them (nobody looked, no housekeeping ran) all is one batch, in which there is no index by id.
describe('reading costs the same', () => {
  it.each([
    { name: 'many small transactions', transactions: 20_000, events: 15, ticks: 200, limit: 1.25 },
    { name: 'a few large ones', transactions: 10, events: 30_000, ticks: 10, limit: 1.25 },
    { name: 'no tick among large ones', transactions: 300, events: 1_000, ticks: 1, limit: 2 },
    { name: 'no tick among small ones', transactions: 30_000, events: 1, ticks: 1, limit: 2 },
  ])(
    'for who is far behind as for who is not: $name',
    {
      timeout: 120_000,
    },
    async ({ transactions, events, ticks, limit }) => {
      const consumer = `behind.${events}.${ticks}`
      await createConsumer(db(), consumer)
      await write(transactions, events, ticks)
      await moveClock(db(), '2 hours') // what is old has been thinned
      await db().query('select fencepost_private.prune_ticks()')
      const behind = await pagesAnEvent(consumer, 20)
      await db().query(`select fencepost.seek_consumer($1, 'now')`, [consumer])
      const caughtUp = await pagesAnEvent(consumer, 8, () => write(20, 50, 1))
      console.log(
        `pages an event: ${caughtUp.toFixed(2)} caught up, ${behind.toFixed(2)} far behind (${transactions} transactions)`,
      )
      expect(behind / caughtUp).toBeLessThanOrEqual(limit)
    },
  )
})

describe('a completion', () => {
  let type: string
  let worker: number
  beforeAll(async () => {
    type = freshType()
    worker = await one(db(), `select fencepost.register_worker('counter', ttl => '1 day')`)
    await enqueueBatch(db(), type, 2_000)
  })

  /** Rows written and locks held by the completion of a hundred jobs, before its commit. */
  const cost = async () => {
    await using session = await Session.open(database.url) // whose numbers are its own
    const claimed = await session.query<{ job_id: number; token: number }>(
      `select job_id, token from fencepost.exchange($1, types => array[$2], max => 100) where directive = 'run'`,
      [worker, type],
    )
    const written = async () => {
      const [row] = await session.query<{ n: number }>(
        `select sum(n_tup_ins + n_tup_upd + n_tup_del)::int as n from pg_stat_xact_user_tables where schemaname = 'fencepost_private'`,
      )
      return row?.n ?? 0
    }
    await session.begin()
    const before = await written()
    await session.query('select fencepost.complete_many($1, $2)', [
      claimed.map((job) => job.job_id),
      claimed.map((job) => job.token),
    ])
    const [row] = await session.query<{ locks: number; tables: number }>(
      `select (select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory')::int as locks,
              (select count(distinct relation) from pg_locks where pid = pg_backend_pid() and mode like 'Row%')::int as tables`,
    )
    const rows = (await written()) - before
    await session.commit()
    return { ...row, rows }
  }

  it('knows nothing of consumers: the same rows and locks with none, idle ones, and one that is reading', async () => {
    const alone = await cost()
    expect(alone.rows).toBeGreaterThan(100)
    for (const name of ['first', 'second', 'third']) await createConsumer(db(), name)
    expect(await cost()).toEqual(alone)
    await moveClock(db(), '1 second')
    await using reader = await Session.open(database.url)
    await reader.begin()
    expect(await reader.query(`select * from fencepost.read_events('first', 500)`)).not.toEqual([])
    expect(await cost()).toEqual(alone)
    await reader.rollback()
  })
})
