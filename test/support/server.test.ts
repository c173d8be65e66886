import { describe, expect, it } from 'vitest'
import { freezeClock, moveClock, restoreClock } from './clock.ts'
import { required } from './required.ts'
import { ownDatabase } from './server.ts'

const database = ownDatabase()

describe('a test database', () => {
  it('is migrated and our own', async () => {
    const [row] = await database.db.query<{ count: number; name: string }>(
      'select count(*), current_database() as name from fencepost_private.migration',
    )
    expect(row).toEqual({ count: 1, name: database.name })
  })
})

describe('the clock', () => {
  /** Whether it is ahead of the server's by just so much: the server's is read before it and after it. */
  const isAhead = async (by: string) => {
    const [row] = await database.db.query<{ yes: boolean }>(
      `select before + $1::interval <= now and now <= after + $1::interval as yes
       from (select clock_timestamp() as before, fencepost_private.now() as now, clock_timestamp() as after) as readings`,
      [by],
    )
    return row?.yes
  }

  it('moves, adding up, and comes back', async () => {
    await moveClock(database.db, '1 hour')
    await moveClock(database.db, '30 s')
    await moveClock(database.db, '-10 s')
    expect(await isAhead('3620 s')).toBe(true)
    await restoreClock(database.db)
    expect(await isAhead('0 s')).toBe(true)
  })

  it('stands still, and moves while it stands', async () => {
    const at = new Date('2030-01-01T00:00:00Z')
    await freezeClock(database.db, at)
    await moveClock(database.db, '1 s')
    const rows = await database.db.query('select fencepost_private.now()')
    expect(rows).toEqual([{ now: new Date('2030-01-01T00:00:01Z') }])
    await restoreClock(database.db)
  })
})

describe('a tool that is missing', () => {
  it('skips with a reason, or fails where it is required', (context) => {
    const skip = () => {
      throw new Error('skipped')
    }
    const name = 'redis'
    try {
      expect(required(name, { skip })).toContain('redis')
    } catch (error) {
      expect(String(error)).toMatch(/skipped|is required/)
    }
    expect(required('bash', context)).toBe('bash')
  })
})
