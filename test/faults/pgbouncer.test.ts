import { afterAll, describe, expect, it } from 'vitest'
import { enqueueBatch } from '../../src/database/engine.ts'
import { startBouncer } from '../support/bouncer.ts'
import { required } from '../support/required.ts'
import { testDatabase } from '../support/server.ts'
import { Crew } from './crew.ts'
import { createEffects, judge, judgeEffects, whereabouts } from './judge.ts'
import { Ledger } from './ledger.ts'

const JOBS = 2_000
/** How long a busy machine may take, in ms. */
const TIME = 120_000

describe('workers behind PgBouncer in transaction mode', () => {
  const ledger = new Ledger()
  afterAll(() => ledger.remove())

  it(
    'work by polling, also when the pooler ends in the middle of it',
    async (context) => {
      const command = required('pgbouncer', context)
      await using database = await testDatabase()
      const { db } = database
      await createEffects(db)
      await using bouncer = await startBouncer(command, database.url, 'transaction')
      await using crew = new Crew({
        url: bouncer.url,
        types: ['quick', 'transfer'],
        directory: ledger.directory,
        size: 2,
        concurrency: 20,
        ttl: '3 s',
        listen: false,
        prepare: false,
      })
      await crew.start()
      const jobs = [
        ...(await enqueueBatch(db, 'quick', Array(JOBS / 2).fill({}))),
        ...(await enqueueBatch(db, 'transfer', Array(JOBS / 2).fill({}))),
      ]
      await crew.reached(JOBS / 4, TIME / 2)
      await bouncer.restart()
      await expect.poll(() => whereabouts(db), { timeout: TIME / 2, interval: 50 }).toEqual([])
      expect(await crew.stop()).toEqual([])
      expect(await judge(db, jobs, ledger)).toEqual([])
      expect(await judgeEffects(db, ['transfer'])).toEqual([])
    },
    TIME,
  )
})
