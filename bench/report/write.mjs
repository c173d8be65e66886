import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { charts } from './charts.mjs'
import { page } from './page.mjs'

const DOCS = fileURLToPath(new URL('../../docs/', import.meta.url))

/** Writes docs/benchmarks.md and its charts from the results of a run. Says what it did. */
export function writeReport(results, directory = DOCS) {
  const pictures = path.join(directory, 'benchmarks')
  mkdirSync(pictures, { recursive: true })
  for (const [name, content] of charts(results)) writeFileSync(path.join(pictures, name), content)
  writeFileSync(path.join(directory, 'benchmarks.md'), page(results))
  return 'Wrote docs/benchmarks.md and docs/benchmarks/'
}
