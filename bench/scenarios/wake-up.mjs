import { now, until } from '../lib/clock.mjs'
import { quantile } from '../lib/stats.mjs'

const EVERY_MS = 20
const WARM_UP = 25

/** How soon an idle worker has a new job in hand. */
export const wakeUp = {
  name: 'wake-up',
  title: 'Wake-up latency',
  about: `An idle worker process; another process enqueues one job each ${EVERY_MS} ms. From the call of enqueue until the handler has the job, so with the commit in it.`,
  unit: 'ms',
  higher: false,
  sizes: { quick: { jobs: 75 }, full: { jobs: 500 } },

  async round(stage, system, { jobs }, settings = system.settings.latency) {
    return await stage.with(system, async ({ place, actor }) => {
      const expected = WARM_UP + jobs
      const [producer, worker] = [await actor('producer'), await actor('worker')]
      await worker.call('start', place, { settings, expected, times: true })
      await producer.call('open', place, { connections: 4 })
      await producer.call('paced', { first: 0, count: WARM_UP, every: EVERY_MS })
      await until(now() + 1000)
      const handled = worker.event('handled', jobs * EVERY_MS + 30_000)
      const [{ sentAt }] = await Promise.all([
        producer.call('paced', { first: WARM_UP, count: jobs, every: EVERY_MS }),
        handled,
      ])
      const { receivedAt, repeated } = await worker.call('report')
      const delays = sentAt.map((sent, index) => receivedAt[WARM_UP + index] - sent)
      await Promise.all([producer.call('close'), worker.call('stop')])
      return {
        value: quantile(delays, 0.5),
        p95: quantile(delays, 0.95),
        p99: quantile(delays, 0.99),
        max: Math.max(...delays),
        repeated,
      }
    })
  },
}
