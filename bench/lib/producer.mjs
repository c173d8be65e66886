import { now, until } from './clock.mjs'
import { payload, payloads } from './payload.mjs'

/** Enqueues for one system, in a process of its own. */
export class Producer {
  #system
  #producer
  #limit = 0
  #limitRaised = () => {}

  constructor(system) {
    this.#system = system
  }

  async open(place, options) {
    this.#producer = await this.#system.producer(place, options)
  }

  /** Enqueues `count` jobs, `size` a call, one call after the other. How long it took, in ms. */
  async batches({ count, size, first = 0 }) {
    const prepared = []
    for (let n = 0; n < count; n += size) {
      prepared.push(payloads(first + n, Math.min(size, count - n)))
    }
    const startedAt = now()
    for (const batch of prepared) await this.#producer.batch(batch)
    return { ms: now() - startedAt }
  }

  /** Enqueues one by one on each of `connections` for `ms`. How many there were, in how long. */
  async ones({ connections, ms }) {
    let n = 0
    const startedAt = now()
    const end = startedAt + ms
    const lane = async () => {
      while (now() < end) await this.#producer.one(payload(n++))
    }
    await Promise.all(Array.from({ length: connections }, lane))
    return { count: n, ms: now() - startedAt }
  }

  /** Enqueues one job each `every` ms, whether or not the one before is done. When each was sent. */
  async paced({ count, every, first }) {
    const sentAt = []
    const pending = []
    const startedAt = now()
    for (let i = 0; i < count; i++) {
      await until(startedAt + i * every)
      sentAt.push(now())
      pending.push(this.#producer.one(payload(first + i)))
    }
    await Promise.all(pending)
    return { sentAt }
  }

  /** Enqueues up to `total` jobs, `size` a call, never beyond what `allow` last said. */
  async feed({ total, size }) {
    for (let n = 0; n < total; n += size) {
      while (n + size > this.#limit) {
        if (this.#limit < 0) return { enqueued: n }
        await new Promise((resolve) => {
          this.#limitRaised = resolve
        })
      }
      await this.#producer.batch(payloads(n, size))
    }
    return { enqueued: total }
  }

  /** Lets `feed` go on up to `limit` jobs; -1 ends it. */
  allow(limit) {
    this.#limit = limit
    this.#limitRaised()
  }

  async close() {
    await this.#producer.close()
  }
}
