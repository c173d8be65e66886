// A worker whose handlers of one type all wait until they are told to go. It says how many wait, and what else it runs.

import { defineJob, Fencepost } from '../../dist/index.js'

const { url, parent, child, options } = JSON.parse(process.argv[2])
const say = (event, more = {}) => process.send({ event, ...more })
const release = []
process.on('message', () => {
  for (const go of release.splice(0)) go()
})
process.once('disconnect', () => process.exit(1))

const definitions = [
  defineJob({
    type: parent,
    run: () => {
      say('waits')
      return new Promise((resolve) => release.push(resolve))
    },
  }),
  defineJob({ type: child, run: (_, { runId }) => say('child', { runId }) }),
]
const worker = new Fencepost({ url }).worker(definitions, {
  ...options,
  onAttempt: ({ type, outcome }) => {
    if (type === child) say(outcome)
  },
})
await worker.start()
say('ready')
