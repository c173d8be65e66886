import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freezeClock, moveClock, restoreClock } from './clock.ts'
import { required } from './required.ts'
import { type TestDatabase, testDatabase } from './server.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await testDatabase()
})
afterAll(() => database.drop())

describe('a test database', () => {
  it('is migrated and our own', async () => {
    const [row] = await database.db.query<{ count: number; name: string }>(
      'select count(*), current_database() as name from fencepost_private.migration',
    )
    expect(row).toEqual({ count: 1, name: database.name })
  })
})

describe('the clock', () => {
  const drift = async () => {
    const [row] = await database.db.query<{ seconds: string }>(
      'select extract(epoch from fencepost_private.now() - clock_timestamp())::text as seconds',
    )
    return Math.round(Number(row?.seconds))
  }

  it('moves, adding up, and comes back', async () => {
    await moveClock(database.db, '1 hour')
    await moveClock(database.db, '30 s')
    expect(await drift()).toBe(3630)
    await restoreClock(database.db)
    expect(await drift()).toBe(0)
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
