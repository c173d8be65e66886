import { expect, it, onTestFinished } from 'vitest'
import { connect, type Database } from '../../src/database/database.ts'
import { defineJob, Fencepost } from '../../src/index.ts'
import { jobsOf, quiet, reading } from '../client/reading.ts'
import { startBouncer } from '../support/bouncer.ts'
import { required } from '../support/required.ts'

const { database, db, fresh, put, caughtUp } = reading()

/** Makes all new sessions of the database begin repeatable read, until the test is over. */
async function repeatableRead(): Promise<void> {
  const change = (what: string) => db().query(`alter database ${database.name} ${what}`)
  await change(`set default_transaction_isolation = 'repeatable read'`)
  onTestFinished(async () => void (await change('reset default_transaction_isolation')))
}

/** Expects statements and transactions to be read committed, and errors to leave nothing behind. */
async function expectReadCommitted(one: Database): Promise<void> {
  const level = "select current_setting('transaction_isolation') as level, $1::int as n"
  const expected = [{ level: 'read committed', n: 7 }]
  expect(await one.query(level, [7])).toEqual(expected)
  expect(await one.transaction((tx) => tx.query(level, [7]))).toEqual(expected)
  await expect(one.query('select 1 / $1::int', [0])).rejects.toMatchObject({ code: '22012' })
  await one.query('create table kept (n int)')
  await expect(one.query('insert into kept select 1 / $1::int', [0])).rejects.toThrow()
  await one.query('insert into kept values ($1)', [1])
  expect(await one.query(level, [7])).toEqual(expected)
  expect(await one.query('select n from kept')).toEqual([{ n: 1 }])
  // what a text began and left open is refused, and not committed by us
  for (const text of [
    'begin; insert into kept values (2)',
    'commit; begin',
    'begin; commit and chain',
  ]) {
    await expect(one.query(text), text).rejects.toMatchObject({ code: 'JE003' })
  }
  await one.query('begin; insert into kept values (3); commit')
  expect(await one.query('select n from kept')).toEqual([{ n: 1 }, { n: 3 }])
  await one.query('drop table kept')
}

it('what we send is read committed where the database has another default', async () => {
  await repeatableRead()
  await using one = connect({ url: database.url, max: 1 })
  await expectReadCommitted(one)
})

it('and behind a pooler that lends a session for each transaction', async (context) => {
  const command = required('pgbouncer', context)
  await repeatableRead()
  await using bouncer = await startBouncer(command, database.url, 'transaction')
  await using one = connect({ url: bouncer.url, max: 1, prepare: false })
  await expectReadCommitted(one)
})

it('workers work there, and consumers consume', async () => {
  await repeatableRead()
  await using engine = new Fencepost({ url: database.url })
  const name = await fresh()
  const ids = await put(name, 3)
  const done: (number | null)[] = []
  const worker = engine.worker([defineJob({ type: name, run: () => 'done' })], {
    logger: quiet.logger,
  })
  const stop = new AbortController()
  const consuming = engine.consume(name, (events) => void done.push(...jobsOf(events)), {
    ...quiet,
    signal: stop.signal,
  })
  await worker.start()
  await Promise.race([caughtUp(name), consuming])
  await expect.poll(() => worker.counters.completed).toBe(3)
  stop.abort()
  await Promise.all([consuming, worker.stop()])
  expect(done.filter((id) => ids.includes(id as number)).length).toBeGreaterThanOrEqual(3)
})
