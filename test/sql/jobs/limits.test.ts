import { describe, expect, it } from 'vitest'
import {
  claim,
  complete,
  enqueueBatch,
  fail,
  freshType,
  maintain,
  settings,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { column, one } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

const running = (type: string) =>
  one<number>(
    db(),
    `select count(*)::int from fencepost_private.lease l join fencepost_private.lane n on n.lane_id = l.lane_id
     join fencepost_private.job_type t on t.type_id = n.type_id where t.type = $1`,
    [type],
  )

describe('max_running', () => {
  it('holds over calls, priorities and workers, and frees a slot with every end', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 10)
    await db().query(
      `select fencepost.enqueue_batch($1, array_fill('{}'::jsonb, array[10]), priority => 9)`,
      [type],
    )
    await settings(db(), type, { max_running: 5 })
    const first = await claim(db(), type, 3)
    const second = await claim(db(), type, 10, 'other')
    expect([first.length, second.length]).toEqual([3, 2])
    expect(await claim(db(), type, 10)).toEqual([])
    await complete(db(), first[0] as never)
    await fail(db(), first[1] as never)
    await one(db(), 'select fencepost.release($1, 1)', [first[2]?.job_id])
    expect(await claim(db(), type, 10)).toHaveLength(3)
    expect(await running(type)).toBe(5)
  })

  it('may be lowered and raised while jobs run', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 10)
    await claim(db(), type, 4)
    await settings(db(), type, { max_running: 2 })
    expect(await claim(db(), type, 10)).toEqual([])
    await settings(db(), type, { max_running: 6 })
    expect(await claim(db(), type, 10)).toHaveLength(2)
    await settings(db(), type, { max_running: null })
    expect(await claim(db(), type, 10)).toHaveLength(4)
  })

  it('is never exceeded while many workers claim, fail and complete, and housekeeping folds', async () => {
    const types = [freshType('x'), freshType('y')]
    const limits = [3, 4]
    for (const [n, type] of types.entries()) {
      await enqueueBatch(db(), type, 150)
      await settings(db(), type, {
        max_running: limits[n] as number,
        backoff_base: '0',
        backoff_jitter: 0,
      })
    }
    let isOver = false
    let left = 300
    const work = async (name: string, order: string[]) => {
      await using session = await Session.open(database.url)
      while (left > 0) {
        const jobs = await session.query<{ job_id: number; token: number }>(
          'select job_id, token from fencepost.claim($1, $2, 2)',
          [name, order],
        )
        for (const [n, job] of jobs.entries()) {
          if (job.token === 1 && n === 1) {
            await session.query('select fencepost.fail($1, $2)', [job.job_id, job.token])
          } else {
            await session.query('select fencepost.complete($1, $2)', [job.job_id, job.token])
            left--
          }
        }
      }
    }
    const watch = async () => {
      while (left > 0) {
        for (const [n, type] of types.entries()) {
          if ((await running(type)) > (limits[n] as number)) isOver = true
        }
        await maintain(db())
      }
    }
    const workers = Array.from({ length: 6 }, (_, n) =>
      work(`limited-${n}`, n % 2 ? types : [...types].reverse()),
    )
    await Promise.all([...workers, watch()])
    expect(isOver).toBe(false)
    expect(left).toBe(0)
    const counted = await column(
      db(),
      `select fencepost_private.running(type_id) from fencepost_private.job_type where type = any ($1)`,
      [types],
    )
    expect(counted).toEqual([0, 0])
  })

  it('of a claim that is left open stalls its own type, and no other', async () => {
    const [limited, free] = [freshType(), freshType()]
    for (const type of [limited, free]) await enqueueBatch(db(), type, 3)
    await settings(db(), limited, { max_running: 2 })
    await using session = await Session.open(database.url)
    await session.begin()
    await session.query(`select * from fencepost.claim('slow', $1, 1)`, [[limited]])
    expect((await claim(db(), [limited, free], 9)).map((job) => job.type)).toEqual([
      free,
      free,
      free,
    ])
    await session.rollback()
    expect(await claim(db(), limited, 9)).toHaveLength(2)
  })
})
