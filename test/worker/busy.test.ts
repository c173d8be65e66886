import { expect, it } from 'vitest'
import { defineJob, defineWorkflow, Fencepost, silentLogger } from '../../src/index.ts'
import { ownDatabase } from '../support/server.ts'

const database = ownDatabase()

it('a result whose run somebody holds is sent again, and holds nobody else up', async () => {
  await using engine = new Fencepost({ url: database.url })
  const step = defineJob({ type: 'busy.step', run: () => 'done' })
  const plain = defineJob({ type: 'busy.plain', run: () => 'done' })
  const flow = defineWorkflow('busy', {}).task('only', { type: step })
  await engine.publish(flow)

  const run = await engine.start(flow, {})
  let release = () => {}
  const held = database.db.transaction(async (tx) => {
    await tx.query('select from fencepost_private.run where run_id = $1 for update', [run.id])
    await new Promise<void>((resolve) => {
      release = resolve
    })
  })
  const worker = engine.worker([step, plain], { logger: silentLogger })
  await worker.start()
  const other = await engine.enqueue(plain, {})
  await expect.poll(async () => (await engine.job(other))?.status).toBe('completed')
  await expect.poll(() => worker.counters.claimed).toBe(2)
  expect(await run.status()).toMatchObject({ status: 'running' })

  release()
  await held
  expect(await run.result()).toEqual({ only: 'done' })
  const attempts = await database.db.query(
    "select outcome from fencepost.attempts a join fencepost.jobs j on j.id = a.job_id where j.type = 'busy.step'",
  )
  expect(attempts).toEqual([{ outcome: 'completed' }])
  await worker.stop()
})
