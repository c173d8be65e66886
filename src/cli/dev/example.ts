import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The example that `fencepost dev` runs: its module, and the job that starts it. */
export interface Example {
  readonly module: string
  readonly start: { readonly type: string; readonly payload: unknown; readonly key: string }
}

/** Stands at the same place beside dist/ in a clone and in the package. */
const MODULE = fileURLToPath(new URL('../../examples/etl/jobs.js', import.meta.url))
const DATA = '@observablehq/sample-datasets/diamonds.csv'

/** The example; or why there is none here. */
export function findExample(): Example | { readonly missing: string } {
  if (!existsSync(MODULE)) return { missing: `${MODULE} is not built` }
  try {
    import.meta.resolve(DATA)
  } catch {
    return { missing: 'its data is not installed: npm install @observablehq/sample-datasets@1.0.1' }
  }
  return {
    module: MODULE,
    start: { type: 'diamonds.import', payload: { chunk: 200 }, key: 'diamonds' },
  }
}
