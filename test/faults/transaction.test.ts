import { afterAll, describe, expect, it } from 'vitest'
import { enqueueBatch } from '../../src/database/engine.ts'
import { Crew } from './crew.ts'
import { createEffects, judge, judgeEffects, unfinished, whereabouts } from './judge.ts'
import { Ledger } from './ledger.ts'
import { Random } from './random.ts'
import { faultServer } from './server.ts'

const DEATHS = Number(process.env.FENCEPOST_FAULTS_DEATHS ?? 200)
/** More than the processes can do before they die. */
const JOBS = DEATHS * 12

const POINTS = ['begun', 'opened', 'written', 'completed', 'committing', 'committed', 'anywhere']

describe("a handler that completes its job inside the application's own transaction", () => {
  const ledger = new Ledger()
  afterAll(() => ledger.remove())

  it(`has its effect exactly once, while its processes die ${DEATHS} times at any point`, async () => {
    const random = new Random()
    console.log(`transaction: FENCEPOST_SEED=${random.seed}`)
    await using faults = await faultServer()
    const { db, url } = faults
    await createEffects(db)
    await db.query('select fencepost.declare_type($1, $2)', ['transfer', '{"max_attempts": 10000}'])
    const jobs = await enqueueBatch(db, 'transfer', Array(JOBS).fill({}))
    await using crew = new Crew({
      url,
      types: ['transfer'],
      directory: ledger.directory,
      size: 2,
      concurrency: 8,
      ttl: '30s',
    })
    await crew.start()
    let deaths = 0
    const one = async (index: number) => {
      while (deaths < DEATHS) {
        deaths += 1
        const point = random.pick(POINTS)
        const visits = point === 'anywhere' ? random.between(1, 60) : random.between(1, 10)
        await crew.sacrifice(index, { point, visits })
      }
      await crew.kill(index)
    }
    await Promise.all([one(0), one(1)])
    const left = await unfinished(db)
    expect(left).toBeGreaterThan(0)
    await expect.poll(() => whereabouts(db), { timeout: 120_000, interval: 100 }).toEqual([])
    expect(await crew.stop()).toEqual([])
    expect(await judge(db, jobs, ledger)).toEqual([])
    expect(await judgeEffects(db, ['transfer'])).toEqual([])
    console.log(
      `transaction: ${deaths} deaths, ${JOBS - left} of ${JOBS} jobs done before the last`,
    )
  }, 400_000)
})
