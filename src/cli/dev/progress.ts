import type { Queryable } from '../../database/database.ts'
import { type StatsRow, stats } from '../../database/engine.ts'

/** How the example stands, in a line; and whether it is done. */
export interface Progress {
  readonly line: string
  readonly done: boolean
}

/** How far the jobs of a family of types, such as `diamonds.`, have come; undefined before the first. */
export async function progressOf(db: Queryable, family: string): Promise<Progress | undefined> {
  const rows = (await stats(db)).filter(({ type }) => type.startsWith(family))
  if (rows.length === 0) return undefined
  const total = sum(rows, ({ enqueued_total }) => enqueued_total)
  const open = sum(rows, ({ pending, running, waiting }) => pending + running + waiting)
  const dead = sum(rows, ({ dead_letter }) => dead_letter)
  const running = sum(rows, (row) => row.running)
  const rate = sum(rows, ({ completed_per_second }) => completed_per_second)
  const parts = [
    `${total - open - dead} of ${total} jobs done`,
    `${running} running`,
    `${dead} dead letters`,
    `${rate.toFixed(1)} jobs/s`,
  ]
  return {
    line: `${bar(total === 0 ? 0 : (total - open) / total)} ${parts.join(' · ')}`,
    done: open === 0,
  }
}

const WIDTH = 24

function bar(share: number): string {
  const full = Math.round(share * WIDTH)
  return `[${'█'.repeat(full)}${'░'.repeat(WIDTH - full)}]`
}

function sum(rows: readonly StatsRow[], value: (row: StatsRow) => number): number {
  return rows.reduce((total, row) => total + value(row), 0)
}
