import { whenTrue } from '../lib/clock.mjs'
import { reading, usage } from '../lib/usage.mjs'

const BATCH = 1000

/** How fast one worker process empties a queue. */
export const drain = {
  name: 'drain',
  title: 'Drain',
  about:
    'One worker process empties a queue of no-op jobs, enqueued beforehand. From the first job that the handler sees until the store holds no unfinished job.',
  unit: 'jobs/s',
  higher: true,
  sizes: { quick: { jobs: 20_000, within: 60_000 }, full: { jobs: 100_000, within: 180_000 } },

  async round(stage, system, { jobs, within }, settings = system.settings.throughput) {
    return await stage.with(system, async ({ place, actor, settle, costs }) => {
      const producer = await actor('producer')
      await producer.call('open', place)
      await producer.call('batches', { count: jobs, size: BATCH })
      await producer.call('close')
      await settle()

      const observer = await system.observer(place)
      const worker = await actor('worker')
      const before = await reading(costs)
      const handled = worker.event('handled', within)
      const [{ startedAt }] = await Promise.all([
        worker.call('start', place, { settings, expected: jobs }),
        handled,
      ])
      const drainedAt = await whenTrue(observer.isDrained, { within, what: 'all jobs finished' })
      await observer.close()
      const after = await reading(costs)
      const { repeated, firstAt, cpuMs, memoryMb } = await worker.call('report')
      await worker.call('stop')
      const ms = drainedAt - firstAt
      return {
        value: (jobs / ms) * 1000,
        startUpMs: firstAt - startedAt,
        repeated,
        ...usage(before, after, { ms, count: jobs, worker: cpuMs }),
        workerMemoryMb: memoryMb,
      }
    })
  },
}
