import { afterEach, describe, expect, it } from 'vitest'
import { json } from '../../../src/database/database.ts'
import { freezeClock, moveClock, restoreClock } from '../../support/clock.ts'
import {
  claim,
  claimOne,
  complete,
  enqueue,
  fail,
  freshType,
  kinds,
  outcomes,
  places,
  settings,
  started,
  status,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { holds, one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => restoreClock(db()))

describe('the wait before the next attempt', () => {
  const wait = (attempt: number, random: number, jitter = 0.5) =>
    one<number>(
      db(),
      `select extract(epoch from fencepost_private.retry_delay($1, '2 s', 2, '1 hour', $3, $2))::float8`,
      [attempt, random, jitter],
    )

  it('is least(cap, base * factor ^ (attempt - 1))', async () => {
    const waits = []
    for (const attempt of [1, 2, 3, 10, 11, 12, 13]) waits.push(await wait(attempt, 0))
    expect(waits).toEqual([2, 4, 8, 1024, 2048, 3600, 3600])
  })

  it('loses up to the share jitter of itself, at random', async () => {
    expect(await wait(4, 0.5)).toBeCloseTo(16 * 0.75, 5)
    expect(await wait(4, 0.999999)).toBeCloseTo(8, 3)
    expect(await wait(4, 0.5, 0)).toBe(16)
    expect(await wait(4, 0.25, 1)).toBe(12)
  })

  it('has no overflow, whatever the attempt', async () => {
    expect(await wait(1_000_000, 0)).toBe(3600)
    expect(await wait(2_000_000_000, 0)).toBe(3600)
    expect(
      await one(
        db(),
        `select extract(epoch from fencepost_private.retry_delay(1000000, '100 years', 100, '100 years', 0, 0)) > 3e9`,
      ),
    ).toBe(true)
  })

  it('lies within its bounds, evenly, when the engine draws', async () => {
    const [row] = await db().query<{ low: number; high: number; mean: number }>(
      `select min(s) as low, max(s) as high, avg(s) as mean from (
         select extract(epoch from fencepost_private.retry_delay(3, '2 s', 2, '1 hour', 0.5))::float8 as s
         from generate_series(1, 4000)) as drawn`,
    )
    expect(row?.low).toBeGreaterThanOrEqual(4)
    expect(row?.low).toBeLessThan(4.1)
    expect(row?.high).toBeLessThanOrEqual(8)
    expect(row?.high).toBeGreaterThan(7.9)
    expect(row?.mean).toBeGreaterThan(5.8)
    expect(row?.mean).toBeLessThan(6.2)
  })

  it('follows the settings of the type, attempt by attempt', async () => {
    const type = freshType()
    await settings(db(), type, {
      backoff_base: '10 s',
      backoff_factor: 3,
      backoff_cap: '100 s',
      backoff_jitter: 0,
      max_attempts: 9,
    })
    await freezeClock(db())
    const id = await enqueue(db(), type)
    const waits = []
    for (let n = 0; n < 4; n++) {
      await fail(db(), await claimOne(db(), type))
      waits.push(
        await one<number>(
          db(),
          'select extract(epoch from available_at - fencepost_private.now())::int from fencepost_private.delayed where id = $1',
          [id],
        ),
      )
      await moveClock(db(), '200 s')
    }
    expect(waits).toEqual([10, 30, 90, 100])
  })
})

describe('fail', () => {
  it('schedules the next attempt, and says so', async () => {
    const type = freshType()
    const job = await started(db(), type)
    expect(await fail(db(), job, 'smtp timeout')).toBe('retry')
    expect(await places(db(), job.job_id)).toEqual(['delayed'])
    expect(await kinds(db(), job.job_id)).toEqual(['job.retry_scheduled'])
    const [event] = await db().query(
      'select outcome::text, attempt, token, data from fencepost_private.event where job_id = $1',
      [job.job_id],
    )
    expect(event).toMatchObject({
      outcome: 'failed',
      attempt: 1,
      token: 1,
      data: { error: 'smtp timeout', available_at: expect.any(String) },
    })
  })

  it('takes the wait that it is given', async () => {
    const type = freshType()
    const job = await started(db(), type)
    await db().query(`select fencepost.fail($1, $2, 'x', '7 minutes')`, [job.job_id, job.token])
    expect(
      await holds(
        db(),
        `exists (select from fencepost_private.delayed where id = $1
                 and available_at between fencepost_private.now() + '6 min' and fencepost_private.now() + '7 min')`,
        [job.job_id],
      ),
    ).toBe(true)
    const other = await started(db(), type)
    await db().query(`select fencepost.fail($1, $2, 'x', '0')`, [other.job_id, other.token])
    expect(await places(db(), other.job_id)).toEqual(['ready'])
  })

  it.each(['-1 s', '101 years', '178000000 years'])('refuses to wait for %s', async (wait) => {
    const job = await started(db(), freshType())
    await refused(
      db().query(`select fencepost.fail($1, $2, 'x', $3)`, [job.job_id, job.token, wait]),
      'JE003',
    )
    expect(await status(db(), job.job_id)).toBe('running')
  })

  it('dead-letters when the attempts of the type are used up', async () => {
    const type = freshType()
    await settings(db(), type, { max_attempts: 2, backoff_base: '0' })
    const id = await enqueue(db(), type)
    expect(await fail(db(), await claimOne(db(), type), 'first')).toBe('retry')
    expect(await fail(db(), await claimOne(db(), type), 'second')).toBe('dead_letter')
    expect(await status(db(), id)).toBe('dead_letter')
    const [letter] = await db().query('select * from fencepost_private.dead_letter where id = $1', [
      id,
    ])
    expect(letter).toMatchObject({ attempts: 2, token: 2, final_error: 'second', details: null })
    expect(await kinds(db(), id)).toEqual(['job.retry_scheduled', 'job.dead_lettered'])
  })

  it('counts by the limit of the job, if it has one', async () => {
    const type = freshType()
    const once = await started(db(), type, { max_attempts: 1 })
    expect(await fail(db(), once)).toBe('dead_letter')
  })

  it('dead-letters at once when that is said to be of no use', async () => {
    const job = await started(db(), freshType())
    const verdict = await one(
      db(),
      `select fencepost.fail($1, $2, 'no such address', permanent => true, details => '{"code": 550}')`,
      [job.job_id, job.token],
    )
    expect(verdict).toBe('dead_letter')
    const [letter] = await db().query('select * from fencepost_private.dead_letter where id = $1', [
      job.job_id,
    ])
    expect(letter).toMatchObject({ final_error: 'no such address', details: { code: 550 } })
  })

  it('ends as timed_out when its deadline has passed, whatever the worker calls it', async () => {
    const job = await started(db(), freshType(), { timeout: '10 s' })
    await moveClock(db(), '11 s')
    expect(await fail(db(), job, 'aborted')).toBe('retry')
    expect(await outcomes(db(), job.job_id)).toEqual(['timed_out'])
  })

  it('keeps any text, and cuts a long one', async () => {
    const odd = await started(db(), freshType())
    await fail(db(), odd, "quote ' backslash \\ dollar $$ emoji 🎈 tab\t")
    const text = (id: number) =>
      one<string>(db(), `select data ->> 'error' from fencepost_private.event where job_id = $1`, [
        id,
      ])
    expect(await text(odd.job_id)).toBe("quote ' backslash \\ dollar $$ emoji 🎈 tab\t")

    for (const [given, kept] of [
      ['x'.repeat(65_536), 65_536],
      ['x'.repeat(65_537), 65_536],
      ['é'.repeat(5_000_000), 32_768],
      [`x${'é'.repeat(50_000)}`, 32_768],
      [`xx${'🎈'.repeat(20_000)}`, 16_385],
    ] as const) {
      const long = await started(db(), freshType())
      await fail(db(), long, given)
      const bytes = Buffer.byteLength(given)
      const cut = bytes > 65_536 ? ` … (cut from ${bytes} bytes)` : ''
      expect(await text(long.job_id)).toBe([...given].slice(0, kept).join('') + cut)
    }

    const none = await started(db(), freshType())
    await db().query('select fencepost.fail($1, $2)', [none.job_id, none.token])
    expect(await text(none.job_id)).toBe('unknown error')
  })

  it('keeps details, and cuts long ones to a text', async () => {
    const job = await started(db(), freshType())
    await db().query(`select fencepost.fail($1, $2, 'x', details => $3)`, [
      job.job_id,
      job.token,
      json({ stack: Array.from({ length: 40_000 }, (_, n) => `frame ${n}`) }),
    ])
    const [row] = await db().query<{ kind: string; bytes: number }>(
      `select jsonb_typeof(data -> 'details') as kind, octet_length(data::text) as bytes
       from fencepost_private.event where job_id = $1`,
      [job.job_id],
    )
    expect(row?.kind).toBe('string')
    expect(row?.bytes).toBeLessThan(80_000)
  })

  it('refuses a stale token, an ended job and an unknown one', async () => {
    const type = freshType()
    const job = await started(db(), type)
    const refusal = await refused(fail(db(), { ...job, token: 2 }), 'JE001')
    expect(refusal.detail).toBe('the job is running')
    await complete(db(), job)
    expect((await refused(fail(db(), job), 'JE001')).detail).toBe('the job is completed')
    await refused(fail(db(), { ...job, job_id: 9_999_999 }), 'JE002')
    await refused(db().query('select fencepost.fail(null, null)'), 'JE002')
  })
})

describe('fail_many', () => {
  const failMany = (ids: number[], tokens: number[], rest = '') =>
    db().query(`select * from fencepost.fail_many($1, $2${rest}) order by 1`, [ids, tokens])

  it('fails each its own way and passes stale pairs over', async () => {
    const type = freshType()
    for (let n = 0; n < 4; n++) await enqueue(db(), type, { max_attempts: n === 1 ? 1 : 3 })
    const jobs = await claim(db(), type, 4)
    const ids = jobs.map((job) => job.job_id)
    const rows = await failMany(
      ids,
      [1, 1, 1, 7],
      `, array['a', 'b', 'c', 'd'], array['1 hour', null, null, null]::interval[], array[false, false, true, false]`,
    )
    expect(rows).toEqual([
      { job_id: ids[0], verdict: 'retry', token: 1 },
      { job_id: ids[1], verdict: 'dead_letter', token: 1 },
      { job_id: ids[2], verdict: 'dead_letter', token: 1 },
    ])
    expect(await status(db(), ids[3] as number)).toBe('running')
    expect(
      await one(db(), `select data ->> 'error' from fencepost_private.event where job_id = $1`, [
        ids[2],
      ]),
    ).toBe('c')
  })

  it('gives a retry without a wait of its own its backoff', async () => {
    const type = freshType()
    const job = await started(db(), type)
    await failMany([job.job_id], [1], `, retry_in => array[null]::interval[]`)
    expect(await places(db(), job.job_id)).toEqual(['delayed'])
  })

  it('takes no harm from an odd wait: it counts as none, or as a century', async () => {
    const type = freshType()
    await enqueue(db(), type)
    await enqueue(db(), type)
    const ids = (await claim(db(), type, 2)).map((job) => job.job_id)
    await failMany(ids, [1, 1], `, retry_in => array['-1 hour', '178000000 years']::interval[]`)
    expect(await places(db(), ids[0] as number)).toEqual(['ready'])
    expect(await places(db(), ids[1] as number)).toEqual(['delayed'])
  })

  it('refuses arrays of different length, and does nothing with empty ones', async () => {
    await refused(failMany([1], []), 'JE003')
    expect(await failMany([], [])).toEqual([])
    expect(await db().query('select * from fencepost.fail_many(null, null)')).toEqual([])
    for (const name of ['errors', 'retry_in', 'permanent', 'details']) {
      const { message } = await refused(
        db().query(`select * from fencepost.fail_many('{1,2}', '{1,1}', ${name} => '{null}')`),
        'JE003',
      )
      expect(message).toContain(`one of ${name} for each job id`)
    }
  })
})
