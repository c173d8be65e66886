const BATCH = 1000

/** How fast one producer fills a queue in batches. */
export const batchEnqueue = {
  name: 'batch-enqueue',
  title: 'Batch enqueue',
  about: `One producer enqueues ${BATCH.toLocaleString('en')} jobs a call, one call after the other, on one connection. No worker runs.`,
  unit: 'jobs/s',
  higher: true,
  sizes: { quick: { jobs: 20_000 }, full: { jobs: 100_000 } },

  async round(stage, system, { jobs }) {
    return await stage.with(system, async ({ place, actor, costs }) => {
      const producer = await actor('producer')
      await producer.call('open', place)
      // Compiles the code and opens the connection; counted nowhere.
      await producer.call('batches', { count: 2 * BATCH, size: BATCH })
      const before = await costs()
      const { ms } = await producer.call('batches', { count: jobs, size: BATCH })
      const after = await costs()
      await producer.call('close')
      return {
        value: (jobs / ms) * 1000,
        logBytesPerJob: (after.logBytes - before.logBytes) / jobs,
      }
    })
  },
}
