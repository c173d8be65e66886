import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { moveClock } from '../../support/clock.ts'
import { claim, freshType, started, status } from '../../support/engine.ts'
import { begin, publish, start } from '../../support/runs.ts'
import { type TestDatabase, testDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { column, one } from '../../support/sql.ts'

// A job or run that raises whenever it is moved: here a trigger does, in life a bug or a broken row.

let database: TestDatabase
const db = () => database.db
beforeEach(async () => {
  database = await testDatabase()
})
afterEach(() => database.drop())

/** From now on a change of the row of `table` whose `key` is `id` raises. */
async function poison(table: string, key: string, id: number, code = 'XX000'): Promise<void> {
  await db().query(
    `create or replace function fencepost_private.poison() returns trigger language plpgsql as
     $$ begin if old.${key} = ${id} then raise 'poisoned' using errcode = '${code}'; end if; return coalesce(new, old); end $$`,
  )
  await db().query(
    `create trigger poison before update or delete on fencepost_private.${table} for each row execute function fencepost_private.poison()`,
  )
}
const mend = (table: string) => db().query(`drop trigger poison on fencepost_private.${table}`)

interface Step {
  readonly step: string
  readonly done: number
  readonly error: string | null
}
const pass = async (step: string): Promise<Step | undefined> =>
  (await db().query<Step>('select * from fencepost.maintain()')).find((row) => row.step === step)
const failures = () =>
  db().query('select step, item, error, failures from fencepost_private.maintain_failure')
const findings = () =>
  column<string>(db(), `select finding from fencepost.doctor() where topic = 'maintain_failing'`)

const waiting = (delay: string) => begin(db(), { t: { kind: 'timer', delay } })
const jobs = async (count: number) => {
  const type = freshType()
  const claimed = []
  for (let n = 0; n < count; n++) claimed.push(await started(db(), type))
  return claimed
}

describe('one that raises', () => {
  it('does not keep timers of other runs from firing; it is told, and goes on when it is mended', async () => {
    const runs = []
    for (let n = 0; n < 9; n++) runs.push(await waiting('1 minute'))
    const bad = runs[3] as (typeof runs)[number]
    await poison('run', 'run_id', bad.id)
    await moveClock(db(), '61 seconds')
    expect(await pass('settle_due_runs')).toMatchObject({ done: 8, error: null })
    for (const run of runs) expect(await run.status()).toBe(run === bad ? 'waiting' : 'completed')
    expect(await failures()).toEqual([
      { step: 'settle_due_runs', item: bad.id, error: 'XX000: poisoned', failures: 1 },
    ])
    expect(await pass('settle_due_runs')).toMatchObject({ done: 0, error: null })
    expect(await failures()).toMatchObject([{ failures: 1 }]) // it is left alone for a second

    for (const wait of ['1 second', '2 seconds']) {
      const other = await waiting('1 second')
      await moveClock(db(), wait)
      expect(await pass('settle_due_runs')).toMatchObject({ done: 1 })
      expect(await other.status()).toBe('completed')
    }
    expect(await findings()).toEqual([
      `the step settle_due_runs of maintain() failed 3 times in a row for run ${bad.id}: XX000: poisoned`,
    ])
    await mend('run')
    await moveClock(db(), '4 seconds')
    expect(await pass('settle_due_runs')).toMatchObject({ done: 1 })
    expect(await bad.status()).toBe('completed')
    expect(await failures()).toEqual([])
  })

  it('does not keep other runs from being removed', async () => {
    const runs = []
    for (let n = 0; n < 5; n++) {
      const run = await begin(db(), { a: {} })
      await run.complete('a')
      runs.push(run.id)
    }
    const bad = runs[2] as number
    await poison('run', 'run_id', bad)
    await moveClock(db(), '8 days')
    expect(await pass('retire_runs')).toMatchObject({ done: 4, error: null })
    const left = () => column<number>(db(), 'select run_id from fencepost_private.run')
    expect(await left()).toEqual([bad])
    expect(await failures()).toMatchObject([{ step: 'retire_runs', item: bad }])
    await mend('run')
    await moveClock(db(), '2 hours')
    expect(await pass('retire_runs')).toMatchObject({ done: 1 })
    expect(await left()).toEqual([])
    expect(await failures()).toEqual([])
  })

  it('does not keep other jobs of lost workers', async () => {
    const claimed = await jobs(6)
    const bad = claimed[5]?.job_id as number
    await poison('lease', 'id', bad)
    await moveClock(db(), '1 minute')
    await pass('mark_lost') // suspected only
    await moveClock(db(), '1 minute')
    expect(await pass('reclaim')).toMatchObject({ done: 5, error: null })
    for (const { job_id: id } of claimed)
      expect(await status(db(), id)).toBe(id === bad ? 'running' : 'pending')
    expect(await failures()).toMatchObject([{ step: 'reclaim', item: bad }])
    await mend('lease')
    await moveClock(db(), '1 second')
    expect(await pass('reclaim')).toMatchObject({ done: 1 })
    expect(await failures()).toEqual([])
  })

  it('does not keep other suspended jobs waiting', async () => {
    const claimed = await jobs(4)
    for (const { job_id: id, token } of claimed)
      await db().query(`select fencepost.suspend($1, $2, delay => '1 minute')`, [id, token])
    const bad = claimed[0]?.job_id as number
    await poison('suspended', 'id', bad)
    await moveClock(db(), '2 minutes')
    expect(await pass('resume_due')).toMatchObject({ done: 3, error: null })
    expect(await failures()).toMatchObject([{ step: 'resume_due', item: bad }])
    expect(await status(db(), bad)).toBe('waiting')

    // somebody ends it otherwise: after an hour nobody is told of it any more
    await mend('suspended')
    await db().query('select fencepost.resume($1)', [bad])
    await moveClock(db(), '2 hours')
    await pass('prune_failures')
    expect(await failures()).toEqual([])
  })

  it('for lack of memory is nobody in particular: the step is tried again', async () => {
    const run = await waiting('1 minute')
    await waiting('1 minute')
    await poison('run', 'run_id', run.id, '53200')
    await moveClock(db(), '61 seconds')
    expect(await pass('settle_due_runs')).toMatchObject({ done: 0, error: '53200: poisoned' })
    expect(await failures()).toEqual([])
    await mend('run')
    await moveClock(db(), '2 seconds')
    expect(await pass('settle_due_runs')).toMatchObject({ done: 2, error: null })
  })
})

describe('one that waits for a lock', () => {
  it('does not keep timers of other runs from firing, and goes on soon after the lock is free', async () => {
    const type = freshType()
    const slow = await publish(db(), {
      t: { kind: 'timer', delay: '1 minute' },
      job: { type, after: ['t'] },
    })
    const runs = [await waiting('1 minute'), await waiting('1 minute')]
    const held = await start(db(), slow, {}, { priority: 7 })
    runs.push(await waiting('1 minute'))
    await using other = await Session.open(database.url)
    await other.begin()
    await other.query('select fencepost.enqueue($1, priority => 7)', [type]) // makes the lane
    await moveClock(db(), '61 seconds')
    expect(await pass('settle_due_runs')).toMatchObject({ done: 3, error: null })
    for (const run of runs) expect(await run.status()).toBe('completed')
    expect(await held.status()).toBe('waiting')
    expect(await failures()).toMatchObject([{ item: held.id, failures: 1 }])
    for (let n = 0; n < 2; n++) {
      await moveClock(db(), '10 seconds')
      expect(await pass('settle_due_runs')).toMatchObject({ done: 0, error: null })
    }
    expect(await failures()).toMatchObject([{ item: held.id, failures: 3 }])
    await other.commit()
    await moveClock(db(), '10 seconds') // not a minute and more, as for what fails by itself
    expect(await pass('settle_due_runs')).toMatchObject({ done: 1, error: null })
    expect(await held.status()).toBe('running')
    expect(await failures()).toEqual([])
  })

  it('does not keep other jobs of lost workers', async () => {
    const types = { a: freshType(), b: freshType(), plain: freshType() }
    const flow = await publish(db(), {
      a: { type: types.a, retry: { max_attempts: 1 }, on_failure: 'continue' },
      b: { type: types.b, after: ['a'] },
    })
    const run = await start(db(), flow, {}, { priority: 3 })
    const [task] = await claim(db(), types.a)
    const { job_id: plain } = await started(db(), types.plain)
    await moveClock(db(), '1 minute')
    await pass('mark_lost') // suspected only
    await moveClock(db(), '1 minute')
    await using other = await Session.open(database.url)
    await other.begin()
    await other.query('select fencepost.enqueue($1, priority => 3)', [types.b])
    expect(await pass('reclaim')).toMatchObject({ done: 1, error: null })
    expect(await status(db(), plain)).toBe('pending')
    expect(await failures()).toMatchObject([{ step: 'reclaim', item: task?.job_id }])
    await other.commit()
    await moveClock(db(), '1 second')
    expect(await pass('reclaim')).toMatchObject({ done: 1, error: null })
    expect((await run.row()).queued_tasks).toBe(1)
    expect(await failures()).toEqual([])
  })

  it('is not looked for among others once that has taken three seconds', async () => {
    await db().query(
      `create function fencepost_private.probe(bigint[]) returns bigint language plpgsql as
       $$ begin
         if 3 = any ($1) then raise 'busy' using errcode = 'lock_not_available'; end if;
         return cardinality($1);
       end $$`,
    )
    const done = (since: string) =>
      one<number>(
        db(),
        `select fencepost_private.isolated('probe', 'probe($1)', '{1,2,3,4}', fencepost_private.now() - $1::interval)`,
        [since],
      )
    expect(await done('4 seconds')).toBe(0)
    expect(await failures()).toEqual([])
    expect(await done('0')).toBe(3)
    expect(await failures()).toMatchObject([{ item: 3, error: '55P03: busy' }])
  })

  it('holds a whole step back for ten seconds at most', async () => {
    await db().query(
      `create function fencepost_private.locked() returns bigint language plpgsql as
       $$ begin raise 'busy' using errcode = 'lock_not_available'; end $$`,
    )
    await db().query(
      `update fencepost_private.maintain_step set call = 'locked()' where step = 'create_partitions'`,
    )
    for (const wait of ['0', '10 seconds', '10 seconds']) {
      await moveClock(db(), wait)
      expect(await pass('create_partitions')).toMatchObject({ error: '55P03: busy' })
    }
  })
})

describe('all are tried at once', () => {
  /** A call that raises for the items in `bad`, and how often it was made for 64 items. */
  const calls = async (bad: readonly number[]) => {
    await db().query('create sequence fencepost_private.calls')
    await db().query(
      `create function fencepost_private.probe(bigint[]) returns bigint language plpgsql as
       $$ begin
         perform nextval('fencepost_private.calls');
         if $1 && '{${bad}}' then raise 'poisoned'; end if;
         return cardinality($1);
       end $$`,
    )
    const done = await one<number>(
      db(),
      `select fencepost_private.isolated('probe', 'probe($1)', array(select generate_series(1, 64)), fencepost_private.now())`,
    )
    expect(done).toBe(64 - bad.length)
    return one<number>(db(), 'select last_value from fencepost_private.calls')
  }
  it.each([
    { bad: [], made: 1 },
    { bad: [13], made: 13 },
    { bad: [1, 64], made: 23 },
  ])('and $bad of 64 are found in $made calls', async ({ bad, made }) => {
    expect(await calls(bad)).toBe(made)
    expect(await failures()).toHaveLength(bad.length)
  })
})
