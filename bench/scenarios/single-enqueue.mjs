const CONNECTIONS = 8

/** How many single enqueues a second are durable. */
export const singleEnqueue = {
  name: 'single-enqueue',
  title: 'Single enqueue',
  about: `One producer process enqueues job by job on ${CONNECTIONS} connections, each call awaited. No worker runs.`,
  unit: 'jobs/s',
  higher: true,
  sizes: { quick: { ms: 1500 }, full: { ms: 8000 } },

  async round(stage, system, { ms }) {
    return await stage.with(system, async ({ place, actor, costs }) => {
      const producer = await actor('producer')
      await producer.call('open', place, { connections: CONNECTIONS })
      await producer.call('ones', { connections: CONNECTIONS, ms: 300 })
      const before = await costs()
      const done = await producer.call('ones', { connections: CONNECTIONS, ms })
      const after = await costs()
      await producer.call('close')
      return {
        value: (done.count / done.ms) * 1000,
        logBytesPerJob: (after.logBytes - before.logBytes) / done.count,
      }
    })
  },
}
