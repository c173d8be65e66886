import { now } from '../lib/clock.mjs'
import { connect } from '../lib/postgres.mjs'

const BATCH = 1000
const BACKLOG = 20_000
const SAMPLE_MS = 50

/** What a snapshot that somebody keeps open does to the queue. */
export const heldSnapshot = {
  name: 'held-snapshot',
  title: 'Held snapshot',
  about: `One producer (batches of ${BATCH.toLocaleString('en')}) and one worker process churn jobs, with at most ${BACKLOG.toLocaleString('en')} waiting, while another session holds a repeatable-read snapshot: no dead row can be removed. Throughput of the last tenth of the jobs over that of the first tenth, beside a control run without the snapshot.`,
  unit: 'last tenth ÷ first tenth',
  higher: true,
  sizes: {
    quick: { jobs: 60_000, warmUp: 10_000, within: 8_000 },
    full: { jobs: 1_000_000, warmUp: 50_000, within: 150_000 },
  },
  suits: (system) => system.store === 'postgres',

  async round(stage, system, size) {
    // Control first, then held, next round the other way, so that a slow drift hits both.
    const control = await churn(stage, system, size, false)
    const held = await churn(stage, system, size, true)
    return {
      value: held.ratio,
      control: control.ratio,
      heldRate: held.rate,
      controlRate: control.rate,
      churned: held.jobs,
      outOfTime: held.outOfTime,
      curve: held.curve,
      controlCurve: control.curve,
      repeated: held.repeated + control.repeated,
    }
  },
}

async function churn(stage, system, { jobs, warmUp, within }, hold) {
  return await stage.with(system, async ({ place, actor }) => {
    const total = warmUp + jobs
    // More than are measured, so that the producer is still at work while the last tenth is.
    const offered = total + 2 * BACKLOG
    const [producer, worker] = [await actor('producer'), await actor('worker')]
    await producer.call('open', place)
    const samples = []
    let snapshot
    let deadline = Number.POSITIVE_INFINITY
    const finished = new Promise((resolve) => {
      worker.on('progress', ({ at, handled }) => {
        if (snapshot !== undefined) samples.push({ at, handled })
        const over = handled >= total || now() > deadline
        producer.call('allow', over ? -1 : handled + BACKLOG).catch(() => {})
        if (over) resolve()
        if (handled >= warmUp && snapshot === undefined) {
          snapshot = hold ? holdSnapshot(place) : Promise.resolve({ end: async () => {} })
          deadline = now() + within
        }
      })
    })
    await worker.call('start', place, {
      settings: system.settings.throughput,
      expected: offered,
      progressEvery: SAMPLE_MS,
    })
    await producer.call('allow', BACKLOG)
    await Promise.all([producer.call('feed', { total: offered, size: BATCH }), finished])
    const { repeated } = await worker.call('report')
    await worker.call('stop')
    await (await snapshot).end()
    return { ...tenths(samples), outOfTime: samples.at(-1).handled < total, repeated }
  })
}

async function holdSnapshot({ url }) {
  const client = await connect(url)
  await client.query('begin isolation level repeatable read')
  await client.query('select 1')
  return client
}

/** Throughput in each tenth of the jobs, and the ratio of the last to the first. */
function tenths(samples) {
  const [first, last] = [samples[0], samples.at(-1)]
  const jobs = last.handled - first.handled
  const timeOf = (count) => {
    const wanted = first.handled + count
    const index = samples.findIndex(({ handled }) => handled >= wanted)
    const [a, b] = [samples[Math.max(0, index - 1)], samples[index]]
    const share = b.handled === a.handled ? 0 : (wanted - a.handled) / (b.handled - a.handled)
    return a.at + (b.at - a.at) * share
  }
  const curve = Array.from({ length: 10 }, (_, tenth) => {
    const ms = timeOf((jobs * (tenth + 1)) / 10) - timeOf((jobs * tenth) / 10)
    return { jobs: (jobs * (tenth + 0.5)) / 10, rate: (jobs / 10 / ms) * 1000 }
  })
  return {
    jobs,
    curve,
    rate: (jobs / (last.at - first.at)) * 1000,
    ratio: curve.at(-1).rate / curve[0].rate,
  }
}
