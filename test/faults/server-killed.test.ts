import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { enqueueBatch } from '../../src/database/engine.ts'
import { Crew } from './crew.ts'
import { Follower } from './follower.ts'
import { attemptsInVain, judge, whereabouts } from './judge.ts'
import { Ledger } from './ledger.ts'
import { Random } from './random.ts'
import { faultServer } from './server.ts'

const KILLS = 5
/** How long a busy machine may take, in ms. */
const TIME = 300_000

describe(`a server that is killed ${KILLS} times, and its workers after it`, () => {
  let ledger: Ledger
  beforeEach(() => {
    ledger = new Ledger()
  })
  afterEach(() => ledger.remove())

  it.each([
    { program: 'worker.mjs', count: Number(process.env.FENCEPOST_FAULTS_JOBS ?? 100_000) },
    { program: 'plain.mjs', count: 5_000 },
  ])(
    'loses none of $count jobs and ends none twice, also as a consumer sees it, and no process crashes or hangs ($program)',
    async ({ program, count }) => {
      const random = new Random()
      console.log(`server-killed: FENCEPOST_SEED=${random.seed}`)
      await using faults = await faultServer()
      const { db, server, url } = faults
      const jobs: number[] = []
      while (jobs.length < count) {
        jobs.push(...(await enqueueBatch(db, 'quick', Array(1_000).fill({ n: jobs.length }))))
      }
      await using crew = new Crew({
        url,
        types: ['quick'],
        directory: ledger.directory,
        size: 2,
        concurrency: 100,
        ttl: '3s',
        program,
      })
      await using follower = new Follower(db)
      await follower.start()
      await crew.start()
      const part = Math.floor(count / (KILLS + 1))
      for (let kill = 1; kill <= KILLS; kill++) {
        await crew.reached(random.between((kill - 1) * part + 1, kill * part), TIME / 2)
        await server.kill()
        await server.restart()
        if (program === 'worker.mjs') await crew.kill(kill % 2)
      }
      const soon = { timeout: TIME / 2, interval: 250 }
      await expect.poll(() => whereabouts(db), soon).toEqual([])
      expect(await crew.stop()).toEqual([])
      expect(await judge(db, jobs, ledger)).toEqual([])
      expect(await follower.judge(jobs)).toEqual([])
      expect(follower.deliveries).toBeGreaterThanOrEqual(count)
      console.log(`server-killed: ${count} jobs, ${attemptsInVain(ledger)} attempts in vain`)
    },
    TIME,
  )
})
