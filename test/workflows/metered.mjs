// A worker whose memory is measured when it is asked: the garbage is collected first, so that what is told is held.
// It squares the items that it is given, and says so when it has gathered their sum.

import { defineJob, Fencepost } from '../../dist/index.js'

const { url, item, gathering, options } = JSON.parse(process.argv[2])
const say = (event, more = {}) => process.send({ event, ...more })

const definitions = [
  defineJob({ type: item, run: ({ item: n }) => n * n }),
  defineJob({
    type: gathering,
    run: ({ tasks }) =>
      Object.values(tasks)
        .flat()
        .reduce((sum, n) => sum + n, 0),
  }),
]
process.on('message', () => {
  globalThis.gc()
  const { heapUsed, rss } = process.memoryUsage()
  // the most that it ever had, which the system tells in KiB
  say('memory', { heapUsed, rss, peak: process.resourceUsage().maxRSS * 1024 })
})
process.once('disconnect', () => process.exit(1))

const worker = new Fencepost({ url }).worker(definitions, {
  ...options,
  onAttempt: ({ type, outcome }) => {
    if (type === gathering && outcome === 'completed') say('gathered')
  },
})
await worker.start()
say('ready')
