import { afterEach, describe, expect, it } from 'vitest'
import { freezeClock, moveClock, restoreClock } from '../../support/clock.ts'
import {
  claim,
  claimOne,
  complete,
  enqueue,
  fail,
  freshType,
  kinds,
  maintain,
  outcomes,
  places,
  settings,
  started,
  status,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => restoreClock(db()))

const register = (name: string, rest = '') =>
  one<number>(db(), `select fencepost.register_worker($1${rest})`, [name])
const workerStatus = (id: number) =>
  one<string>(db(), 'select status::text from fencepost_private.worker where worker_id = $1', [id])
const heartbeat = (
  name: string,
  ids: number[] = [],
  tokens: number[] = [],
  id: number | null = null,
) =>
  db().query<{ job_id: number | null; directive: string }>(
    'select * from fencepost.heartbeat($1, $2, $3, $4)',
    [name, ids, tokens, id],
  )

describe('a silent worker', () => {
  const stage = async (name: string) => {
    const type = freshType()
    const id = await register(name, `, ttl => '10 s'`)
    const job = await started(db(), type, {}, name)
    return { type, id, job }
  }

  it('is suspected first, lost after a second look, and its jobs go elsewhere under new tokens', async () => {
    const { type, id, job } = await stage('silent')
    await moveClock(db(), '6 s')
    await maintain(db())
    expect(await workerStatus(id)).toBe('active')
    await moveClock(db(), '6 s')
    await maintain(db())
    expect(await workerStatus(id)).toBe('lost')
    expect(await outcomes(db(), job.job_id)).toEqual(['lease_expired'])
    expect(await claimOne(db(), type, 'rescuer')).toMatchObject({
      job_id: job.job_id,
      token: 2,
      attempt: 2,
    })
    await refused(heartbeat('silent', [job.job_id], [1], id), 'JE010')
    await refused(complete(db(), job), 'JE001')
    await refused(fail(db(), job), 'JE001')
    const [event] = await db().query(
      `select data from fencepost_private.event where kind = 'worker.lost' and worker_id = $1`,
      [id],
    )
    expect(event?.data).toMatchObject({ worker: 'silent', reason: 'silent' })
  })

  it('is not lost by an outage: the first look after it only suspects', async () => {
    const { id, job } = await stage('patient')
    await moveClock(db(), '1 day')
    await maintain(db())
    await maintain(db())
    expect(await workerStatus(id)).toBe('active')
    expect(await heartbeat('patient', [job.job_id], [1], id)).toEqual([])
    await moveClock(db(), '4 s')
    await maintain(db())
    expect(await workerStatus(id)).toBe('active')
    await complete(db(), job)
  })

  it('clears its name by a heartbeat between the looks', async () => {
    const { id } = await stage('slow')
    for (let n = 0; n < 4; n++) {
      await moveClock(db(), '6 s')
      await maintain(db())
      await heartbeat('slow', [], [], id)
    }
    await maintain(db())
    expect(await workerStatus(id)).toBe('active')
  })

  it('may still end its jobs well as long as nobody took them back', async () => {
    const { job } = await stage('late')
    await moveClock(db(), '1 hour')
    await complete(db(), job)
    expect(await status(db(), job.job_id)).toBe('completed')
  })

  it('dies of a job that kills each of its workers only as often as that has attempts', async () => {
    const type = freshType()
    await settings(db(), type, { max_attempts: 3 })
    const id = await enqueue(db(), type)
    for (let n = 0; n < 3; n++) {
      await register('victim')
      await claimOne(db(), type, 'victim')
      await register('victim')
      await maintain(db())
    }
    expect(await status(db(), id)).toBe('dead_letter')
    expect(await outcomes(db(), id)).toEqual(['lease_expired', 'lease_expired', 'lease_expired'])
  })

  it('is closed only when no lease of it is left', async () => {
    const { id } = await stage('closing')
    await register('closing')
    await maintain(db())
    await maintain(db())
    expect(
      await one(db(), 'select swept from fencepost_private.worker where worker_id = $1', [id]),
    ).toBe(true)
  })
})

describe('a job that its live worker forgot', () => {
  it('is taken back after three ttls, one that it names never', async () => {
    const type = freshType()
    const id = await register('absent-minded', `, ttl => '10 s'`)
    await enqueue(db(), type)
    await enqueue(db(), type)
    const [named, forgotten] = (await claim(db(), type, 2, 'absent-minded')).map(
      (job) => job.job_id,
    ) as [number, number]
    for (let n = 0; n < 12; n++) {
      await moveClock(db(), '3 s')
      await heartbeat('absent-minded', [named], [1], id)
      await maintain(db())
    }
    expect(await places(db(), named)).toEqual(['lease'])
    expect(await outcomes(db(), forgotten)).toEqual(['lease_expired'])
    const error = await one<string>(
      db(),
      `select data ->> 'error' from fencepost_private.event where job_id = $1`,
      [forgotten],
    )
    expect(error).toMatch(/no longer names this job/)
  })

  it('is not forgotten by an outage, whichever call the worker makes first after it', async () => {
    const type = freshType()
    await freezeClock(db())
    const id = await register('back', `, ttl => '10 s'`)
    const job = await started(db(), type, {}, 'back')
    await moveClock(db(), '1 day')
    await claim(db(), type, 1, 'back')
    await maintain(db())
    expect(await places(db(), job.job_id)).toEqual(['lease'])
    const until = await one<number>(
      db(),
      'select extract(epoch from leased_until - fencepost_private.now())::float8 from fencepost.leases where job_id = $1',
      [job.job_id],
    )
    expect(until).toBe(10)
    for (let n = 0; n < 11; n++) {
      await moveClock(db(), '3 s')
      await heartbeat('back', [], [], id)
      await maintain(db())
    }
    expect(await outcomes(db(), job.job_id)).toEqual(['lease_expired'])
  })

  it('costs the worker no write while its jobs are short', async () => {
    const id = await register('brisk', `, ttl => '30 s'`)
    const job = await started(db(), freshType(), {}, 'brisk')
    const seen = () =>
      one(db(), 'select seen_at from fencepost_private.lease where id = $1', [job.job_id])
    await moveClock(db(), '20 s')
    await heartbeat('brisk', [job.job_id], [1], id)
    expect(await seen()).toBeNull()
    await moveClock(db(), '20 s')
    await heartbeat('brisk', [job.job_id], [1], id)
    expect(await seen()).not.toBeNull()
  })
})

describe('an attempt past its deadline', () => {
  it('ends as timed_out and is tried again after its backoff', async () => {
    const type = freshType()
    await settings(db(), type, { timeout: '5 s' })
    await freezeClock(db())
    await register('stuck')
    const job = await started(db(), type, {}, 'stuck')
    await moveClock(db(), '4 s')
    await maintain(db())
    expect(await places(db(), job.job_id)).toEqual(['lease'])
    await moveClock(db(), '2 s')
    await maintain(db())
    expect(await outcomes(db(), job.job_id)).toEqual(['timed_out'])
    expect(await places(db(), job.job_id)).toEqual(['delayed'])
    await refused(complete(db(), job), 'JE001')
  })

  it('is dead-lettered when it was the last', async () => {
    const job = await started(db(), freshType(), { timeout: '5 s', max_attempts: 1 }, 'stuck')
    await moveClock(db(), '6 s')
    await maintain(db())
    expect(await status(db(), job.job_id)).toBe('dead_letter')
    expect(await kinds(db(), job.job_id)).toEqual(['job.dead_lettered'])
  })

  it('of the longest timeout does not disturb claims of its type', async () => {
    const type = freshType()
    await enqueue(db(), type, { timeout: '100 years' })
    expect((await claimOne(db(), type)).job_id).toBeGreaterThan(0)
  })
})
