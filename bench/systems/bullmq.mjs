import { redisVersion } from '../lib/redis.mjs'

const QUEUE = 'bench'

/** BullMQ on Redis, removing what is finished, which is its fastest way to run. */
const bullmqOn = (appendfsync) => ({
  store: 'redis',
  redis: { appendfsync },
  package: 'bullmq',
  settings: {
    throughput: { concurrency: 200, removeOnComplete: { count: 0 } },
    latency: { concurrency: 200, removeOnComplete: { count: 0 } },
  },
  candidates: {
    throughput: [24, 100, 200, 500, 1000].map((concurrency) => ({
      concurrency,
      removeOnComplete: { count: 0 },
    })),
    latency: [1, 24, 200].map((concurrency) => ({ concurrency, removeOnComplete: { count: 0 } })),
  },

  async load() {
    if (redisVersion() === undefined) throw new Error('redis-server is not installed here')
    await import('ioredis')
    await import('bullmq')
  },

  async install() {},

  async producer({ port }, { connections = 1 } = {}) {
    const { Queue } = await import('bullmq')
    const queues = Array.from({ length: connections }, () => new Queue(QUEUE, to(port)))
    await Promise.all(queues.map((queue) => queue.waitUntilReady()))
    let next = 0
    return {
      one: (data) => queues[next++ % connections].add('job', data),
      batch: (payloads) => queues[0].addBulk(payloads.map((data) => ({ name: 'job', data }))),
      close: () => Promise.all(queues.map((queue) => queue.close())),
    }
  },

  async worker({ port }, { settings, handle }) {
    const { Worker } = await import('bullmq')
    const worker = new Worker(QUEUE, async ({ data }) => handle(data), { ...to(port), ...settings })
    worker.on('error', (error) => console.error(`BullMQ: ${error.message}`))
    await worker.waitUntilReady()
    return { stop: () => worker.close() }
  },

  async observer({ port }) {
    const { Queue } = await import('bullmq')
    const queue = new Queue(QUEUE, to(port))
    await queue.waitUntilReady()
    return {
      isDrained: async () => {
        const counts = await queue.getJobCounts('waiting', 'active', 'prioritized', 'delayed')
        return Object.values(counts).every((count) => count === 0)
      },
      close: () => queue.close(),
    }
  },
})

export const bullmq = {
  ...bullmqOn('everysec'),
  name: 'bullmq',
  title: 'BullMQ, synced each second',
  keeps: 'nothing: a finished job is removed; a crash loses up to a second of everything',
}

export const bullmqAlways = {
  ...bullmqOn('always'),
  name: 'bullmq-always',
  title: 'BullMQ, synced always',
  /** Where durability is what is measured. */
  scenarios: ['single-enqueue', 'wake-up'],
  keeps: 'nothing: a finished job is removed; what was acknowledged survives a crash',
}

const to = (port) => ({ connection: { host: '127.0.0.1', port, maxRetriesPerRequest: null } })
