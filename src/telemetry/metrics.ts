import { collectDefaultMetrics, type Metric, Registry } from 'prom-client'
import type { Queryable } from '../database/database.ts'
import { consumers, outcomeTotals, snapshotAge, stats, workerCounts } from '../database/engine.ts'
import { type Family, families, type Reading, type Sample } from './metric-families.ts'

/** What the metrics are read from. */
export interface MetricsOptions {
  readonly db: Queryable
  /** Add those of this process: memory, event loop, garbage collection. Default true. */
  readonly process?: boolean
  /** How long a reading of the database serves, in ms. Default 1,000. */
  readonly maxAge?: number
}

/** Metrics of the engine, for Prometheus. */
export interface EngineMetrics {
  /** Metrics of the application may be registered in it too. */
  readonly registry: Registry
  /** All of them in Prometheus' text format. Rejects when the database does not answer. */
  text(): Promise<{ readonly type: string; readonly value: string }>
}

/** The metrics of an engine: read from its counters at each scrape, never from a scan. */
export function engineMetrics({
  db,
  process = true,
  maxAge = 1_000,
}: MetricsOptions): EngineMetrics {
  const registry = new Registry()
  const read = cached(() => readAll(db), maxAge)
  for (const family of families) {
    registry.registerMetric(new EngineMetric(family, read) as unknown as Metric)
  }
  if (process) collectDefaultMetrics({ register: registry })
  return {
    registry,
    text: async () => ({ type: registry.contentType, value: await registry.metrics() }),
  }
}

async function readAll(db: Queryable): Promise<Reading> {
  const [types, outcomes, workers, readers, age] = await Promise.all([
    stats(db),
    outcomeTotals(db),
    workerCounts(db),
    consumers(db),
    snapshotAge(db),
  ])
  return { types, outcomes, workers, consumers: readers, snapshotAge: age }
}

/** Those who ask at the same time share one answer, and so do those who ask soon after. */
function cached<T>(make: () => Promise<T>, maxAge: number): () => Promise<T> {
  let latest: Promise<T> | undefined
  let madeAt = 0
  return () => {
    if (latest === undefined || Date.now() - madeAt > maxAge) {
      madeAt = Date.now()
      latest = make()
      latest.catch(() => {
        latest = undefined
      })
    }
    return latest
  }
}

/** A metric whose values stand in the database: what prom-client asks of its own. */
class EngineMetric {
  readonly name: string
  readonly help: string
  readonly type: Family['type']
  readonly aggregator = 'first'
  readonly #samples: Family['samples']
  readonly #read: () => Promise<Reading>

  constructor({ name, help, type, samples }: Family, read: () => Promise<Reading>) {
    this.name = name
    this.help = help
    this.type = type
    this.#samples = samples
    this.#read = read
  }

  async get(): Promise<object> {
    const { name, help, type, aggregator } = this
    const values: readonly Sample[] = this.#samples(await this.#read())
    return { name, help, type, aggregator, values }
  }

  reset(): void {}
}
