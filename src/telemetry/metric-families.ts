import type { ConsumerRow, OutcomeRow, StatsRow, WorkerCount } from '../database/engine.ts'

/** What was read from the database at once. */
export interface Reading {
  readonly types: readonly StatsRow[]
  readonly outcomes: readonly OutcomeRow[]
  readonly workers: readonly WorkerCount[]
  readonly consumers: readonly ConsumerRow[]
  readonly snapshotAge: number
}

/** One value of a metric. */
export interface Sample {
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
  /** Its own name, for the parts of a histogram. */
  readonly metricName?: string
}

/** A metric: its name, its meaning, and its values in a reading. */
export interface Family {
  readonly name: string
  readonly help: string
  readonly type: 'gauge' | 'counter' | 'histogram'
  samples(reading: Reading): Sample[]
}

/** Where jobs stand that have not ended. */
const PLACES = ['ready', 'delayed', 'parked', 'running', 'waiting', 'dead_letter'] as const

/** The metrics of the engine, in base units; ids are never labels. */
export const families: readonly Family[] = [
  {
    name: 'fencepost_jobs',
    help: 'Jobs by type and where they stand.',
    type: 'gauge',
    samples: ({ types }) =>
      types.flatMap((row) =>
        PLACES.map((status) => ({ labels: { type: row.type, status }, value: row[status] })),
      ),
  },
  byType(
    'gauge',
    'fencepost_oldest_ready_seconds',
    'How long the oldest ready job has waited; 0 when none waits.',
    (row) => row.oldest_ready_seconds ?? 0,
  ),
  byType(
    'gauge',
    'fencepost_dead_letters',
    'Jobs that failed for good and wait for a decision.',
    (row) => row.dead_letter,
  ),
  byType(
    'gauge',
    'fencepost_dead_letter_alert',
    'Dead letters of the type at which its operators want to hear of it.',
    (row) => row.dead_letter_alert,
  ),
  byType(
    'gauge',
    'fencepost_type_workers',
    'Live workers that take jobs of the type.',
    (row) => row.workers,
  ),
  byType('counter', 'fencepost_jobs_enqueued_total', 'Jobs enqueued.', (row) => row.enqueued_total),
  byType(
    'counter',
    'fencepost_retries_total',
    'Attempts that failed and were followed by another.',
    (row) => row.retried_total,
  ),
  byType(
    'counter',
    'fencepost_dead_lettered_total',
    'Jobs that failed for good.',
    (row) => row.dead_lettered_total,
  ),
  byType(
    'counter',
    'fencepost_lease_lost_total',
    'Attempts taken back from workers that fell silent.',
    (row) => row.lease_expired_total,
  ),
  {
    name: 'fencepost_attempts_total',
    help: 'Attempts that ended, by type and outcome.',
    type: 'counter',
    samples: ({ outcomes }) =>
      [...grouped(outcomes.filter(({ outcome }) => outcome !== null))].map(([, rows]) => ({
        labels: { type: rows[0].type, outcome: rows[0].outcome ?? '' },
        value: sum(rows, ({ events }) => events),
      })),
  },
  histogram('fencepost_wait_seconds', 'From ready to claimed, of attempts that ended.', 'wait'),
  histogram('fencepost_run_seconds', 'From claimed to ended.', 'run'),
  {
    name: 'fencepost_workers',
    help: 'Worker processes by status.',
    type: 'gauge',
    samples: ({ workers }) =>
      ['active', 'draining', 'lost', 'stopped'].map((status) => ({
        labels: { status },
        value: sum(
          workers.filter((each) => each.status === status),
          (each) => each.workers,
        ),
      })),
  },
  {
    name: 'fencepost_worker_slots',
    help: 'Jobs that the active workers can run at once, as far as they tell.',
    type: 'gauge',
    samples: ({ workers }) => [
      {
        labels: {},
        value: sum(
          workers.filter(({ status }) => status === 'active'),
          ({ slots }) => slots,
        ),
      },
    ],
  },
  byConsumer(
    'fencepost_consumer_lag',
    'Events of the log that the consumer has not passed, counted to 100,000.',
    (row) => row.lag_events,
  ),
  byConsumer(
    'fencepost_consumer_lag_seconds',
    'Age of the oldest of them; 0 when there is none.',
    (row) => row.lag_seconds,
  ),
  byConsumer(
    'fencepost_consumer_parked',
    'Events that the consumer set aside because they could not be delivered.',
    (row) => row.parked,
  ),
  {
    name: 'fencepost_consumers_expired',
    help: 'Consumers that fell behind their max_lag and read nothing until they are moved.',
    type: 'gauge',
    samples: ({ consumers }) => [
      { labels: {}, value: consumers.filter((row) => row.expired_at !== null).length },
    ],
  },
  {
    name: 'fencepost_snapshot_age_seconds',
    help: 'How long the oldest open snapshot has been held: dead rows stay as long.',
    type: 'gauge',
    samples: ({ snapshotAge }) => [{ labels: {}, value: snapshotAge }],
  },
]

function byType(
  type: 'gauge' | 'counter',
  name: string,
  help: string,
  value: (row: StatsRow) => number,
): Family {
  return {
    name,
    help,
    type,
    samples: ({ types }) => types.map((row) => ({ labels: { type: row.type }, value: value(row) })),
  }
}

function byConsumer(name: string, help: string, value: (row: ConsumerRow) => number): Family {
  return {
    name,
    help,
    type: 'gauge',
    samples: ({ consumers }) =>
      consumers.map((row) => ({ labels: { consumer: row.name }, value: value(row) })),
  }
}

function histogram(name: string, help: string, which: 'wait' | 'run'): Family {
  return {
    name,
    help,
    type: 'histogram',
    samples: ({ outcomes }) =>
      [
        ...grouped(
          outcomes.filter(({ outcome }) => outcome !== null),
          ({ type }) => type,
        ),
      ].flatMap(([type, rows]) => bucketsOf(name, { type }, rows, which)),
  }
}

/** Prometheus' buckets are cumulative; the engine's are not. */
function bucketsOf(
  name: string,
  labels: Readonly<Record<string, string>>,
  rows: readonly OutcomeRow[],
  which: 'wait' | 'run',
): Sample[] {
  const bounds = rows[0]?.bounds ?? []
  const countsOf = (row: OutcomeRow) => (which === 'wait' ? row.wait_counts : row.run_counts)
  let below = 0
  const buckets = [...bounds, '+Inf'].map((le, index) => {
    below += sum(rows, (row) => countsOf(row)[index] ?? 0)
    return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: below }
  })
  const seconds = sum(rows, (row) => (which === 'wait' ? row.wait_seconds : row.run_seconds))
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: seconds },
    { metricName: `${name}_count`, labels, value: below },
  ]
}

/** Rows by a key: of one type and outcome, unless another is given. */
function grouped(
  rows: readonly OutcomeRow[],
  key: (row: OutcomeRow) => string = ({ type, outcome }) => `${type} ${outcome}`,
): Map<string, [OutcomeRow, ...OutcomeRow[]]> {
  const groups = new Map<string, [OutcomeRow, ...OutcomeRow[]]>()
  for (const row of rows) {
    const group = groups.get(key(row))
    if (group === undefined) groups.set(key(row), [row])
    else group.push(row)
  }
  return groups
}

function sum<Row>(rows: readonly Row[], value: (row: Row) => number): number {
  return rows.reduce((total, row) => total + value(row), 0)
}
