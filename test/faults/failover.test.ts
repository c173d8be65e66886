import { afterAll, describe, expect, it } from 'vitest'
import { connect } from '../../src/database/database.ts'
import { enqueueBatch } from '../../src/database/engine.ts'
import { Crew } from './crew.ts'
import { attemptsInVain, judge, whereabouts } from './judge.ts'
import { Ledger } from './ledger.ts'
import { Random } from './random.ts'
import { faultServer, synchronousStandby } from './server.ts'

const JOBS = 10_000
/** How long a busy machine may take, in ms. */
const TIME = 240_000

describe.skipIf(process.platform === 'win32')('a failover to a synchronous standby', () => {
  const ledger = new Ledger()
  afterAll(() => ledger.remove())

  it(
    'loses no job and ends none twice; workers that know both servers go on',
    async () => {
      const random = new Random()
      console.log(`failover: FENCEPOST_SEED=${random.seed}`)
      await using primary = await faultServer()
      await using standby = await synchronousStandby(primary)
      await expect
        .poll(() => primary.db.query('select sync_state from pg_stat_replication'))
        .toEqual([{ sync_state: 'sync' }])
      const jobs = await enqueueBatch(primary.db, 'quick', Array(JOBS).fill({}))

      const both = primary.url.replace(
        `:${primary.server.port}/`,
        `:${primary.server.port},127.0.0.1:${standby.server.port}/`,
      )
      await using crew = new Crew({
        url: both,
        types: ['quick'],
        directory: ledger.directory,
        size: 2,
        concurrency: 50,
        ttl: '3s',
      })
      await crew.start()
      await crew.reached(random.between(JOBS / 4, JOBS / 2), TIME / 2)
      await primary.server.kill()
      await using db = connect({ url: both })
      await using old = connect({ url: `${both}?target_session_attrs=standby` })
      await old.query('select pg_promote()')

      await expect.poll(() => whereabouts(db), { timeout: TIME / 2, interval: 100 }).toEqual([])
      expect(await crew.stop()).toEqual([])
      expect(await judge(db, jobs, ledger)).toEqual([])
      console.log(`failover: ${JOBS} jobs, ${attemptsInVain(ledger)} attempts in vain`)
    },
    TIME,
  )
})
