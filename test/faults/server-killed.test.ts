import { afterAll, describe, expect, it } from 'vitest'
import { enqueueBatch } from '../../src/database/engine.ts'
import { Crew } from './crew.ts'
import { attemptsInVain, judge, whereabouts } from './judge.ts'
import { Ledger } from './ledger.ts'
import { Random } from './random.ts'
import { faultServer } from './server.ts'

const JOBS = Number(process.env.FENCEPOST_FAULTS_JOBS ?? 50_000)
const KILLS = 5

describe('a server that is killed again and again while two processes work', () => {
  const ledger = new Ledger()
  afterAll(() => ledger.remove())

  it('loses no job, ends none twice, and no process crashes or hangs', async () => {
    const random = new Random()
    console.log(`server-killed: FENCEPOST_SEED=${random.seed}`)
    await using faults = await faultServer()
    const { db, server, url } = faults
    const jobs: number[] = []
    for (let i = 0; i < JOBS; i += 1_000) {
      jobs.push(...(await enqueueBatch(db, 'quick', Array(1_000).fill({ n: i }))))
    }
    await using crew = new Crew({
      url,
      types: ['quick'],
      directory: ledger.directory,
      size: 2,
      concurrency: 100,
      ttl: '3s',
    })
    await crew.start()
    const part = Math.floor(JOBS / (KILLS + 1))
    for (let kill = 1; kill <= KILLS; kill++) {
      await crew.reached(random.between((kill - 1) * part + 1, kill * part), 60_000)
      await server.kill()
      await server.restart()
    }
    await expect.poll(() => whereabouts(db), { timeout: 60_000, interval: 250 }).toEqual([])
    expect(await crew.stop()).toEqual([])
    expect(await judge(db, jobs, ledger)).toEqual([])
    console.log(
      `server-killed: ${JOBS} jobs, ${KILLS} kills, ${attemptsInVain(ledger)} attempts in vain`,
    )
  }, 240_000)
})
