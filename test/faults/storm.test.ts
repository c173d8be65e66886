import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import type { Database } from '../../src/database/database.ts'
import { enqueueMany } from '../../src/database/engine.ts'
import { startProxy } from '../support/proxy.ts'
import { Crew } from './crew.ts'
import {
  attemptsInVain,
  createEffects,
  judge,
  judgeEffects,
  unfinished,
  whereabouts,
} from './judge.ts'
import { Ledger } from './ledger.ts'
import { Random } from './random.ts'
import { faultServer } from './server.ts'
import { Storm } from './storm.ts'

/** How long the storm rages, in s. */
const SECONDS = Number(process.env.FENCEPOST_FAULTS_SECONDS ?? 45)
const CREW = 3
const TTL = 3
/** The most jobs that wait. */
const BACKLOG = 1_000
/** How many of each type among sixty jobs. */
const MIX = { quick: 38, transfer: 12, flaky: 5, hopeless: 1, slow: 1, stubborn: 3 }
const TYPES = Object.keys(MIX)
const SIXTY = Object.entries(MIX).flatMap(([type, count]) => Array<string>(count).fill(type))

describe('a storm of faults', () => {
  const ledger = new Ledger()
  afterAll(() => ledger.remove())

  it(
    `of ${SECONDS} s loses no job, ends none twice, and leaves nothing broken`,
    async () => {
      const random = new Random()
      console.log(`storm: FENCEPOST_SEED=${random.seed}`)
      await using faults = await faultServer()
      const { db, server, url } = faults
      await createEffects(db)
      const settings = { max_attempts: 100_000, backoff_base: '50 ms', backoff_cap: '1 s' }
      for (const type of TYPES) {
        await db.query('select fencepost.declare_type($1, $2)', [type, JSON.stringify(settings)])
      }
      await using proxy = await startProxy(url)
      await using crew = new Crew({
        url: proxy.url,
        types: TYPES,
        directory: ledger.directory,
        size: CREW,
        concurrency: 40,
        ttl: `${TTL} s`,
      })
      await crew.start()

      const storm = new Storm(
        { server, url, db, proxy, crew, crewSize: CREW, ttl: TTL * 1_000 },
        random,
      )
      const jobs: number[] = []
      const over = new AbortController()
      const producer = produce(db, random, jobs, over.signal)
      await storm.rage(SECONDS * 1_000)
      over.abort()
      await producer

      await expect.poll(() => whereabouts(db), { timeout: 90_000, interval: 250 }).toEqual([])
      expect(await crew.stop()).toEqual([])
      expect(await judge(db, jobs, ledger)).toEqual([])
      expect(await judgeEffects(db, ['transfer', 'stubborn'])).toEqual([])
      expect(jobs.length).toBeGreaterThan(BACKLOG)
      console.log(`storm: ${jobs.length} jobs, ${attemptsInVain(ledger)} attempts in vain`)
      console.log(`storm: ${storm.summary}`)
    },
    (SECONDS + 180) * 1_000,
  )
})

/** Enqueues while the storm rages, and notes the jobs of which the server said that it has them. */
async function produce(
  db: Database,
  random: Random,
  jobs: number[],
  over: AbortSignal,
): Promise<void> {
  while (!over.aborted) {
    try {
      if ((await unfinished(db)) < BACKLOG) {
        const batch = Array.from({ length: 100 }, () => ({
          type: random.pick(SIXTY),
          payload: { ms: random.between(300, 5_000) },
        }))
        const answers = await enqueueMany(db, batch)
        for (const { job_id } of answers) jobs.push(job_id)
      }
    } catch {
      // An answer that was lost may stand for jobs that are there: they are worked off, and not judged.
    }
    await sleep(50)
  }
}
