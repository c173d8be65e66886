import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseCsv } from '../etl/csv.ts'

interface Day {
  readonly date: string
  /** In dollars. */
  readonly close: number
}

let days: readonly Day[] | undefined

/** Five years of a share (the CSV that npm's @observablehq/sample-datasets ships), read once a process. */
function history(): readonly Day[] {
  const path = fileURLToPath(import.meta.resolve('@observablehq/sample-datasets/aapl.csv'))
  days ??= parseCsv(readFileSync(path, 'utf8')).map(({ Date: date = '', Close }) => ({
    date,
    close: Number(Close),
  }))
  return days
}

/** What a share cost at the end of a day, in cents; undefined when nothing was traded on it. */
export function priceOn(date: string): number | undefined {
  const day = history().find((each) => each.date === date)
  return day && Math.round(day.close * 100)
}

/** How many days the risk looks back, and the quantile of a normal distribution that 95 % are below. */
const DAYS = 20
const QUANTILE = 1.645

/**
 * What is lost in a day at most, with 95 % certainty, as a part of the value: from how the price moved
 * in the 20 trading days until then.
 */
export function riskOn(date: string): number {
  const end = history().findIndex((each) => each.date === date) + 1
  const closes = history().slice(Math.max(0, end - DAYS - 1), end)
  const returns = closes
    .slice(1)
    .map(({ close }, at) => Math.log(close / (closes[at]?.close ?? close)))
  const mean = returns.reduce((sum, each) => sum + each, 0) / returns.length
  const variance = returns.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (returns.length - 1)
  return QUANTILE * Math.sqrt(variance)
}
