/** Values nested deeper are not shown: what reads JSON elsewhere has its limits too. */
const DEEPEST = 500

/**
 * The JSON text of what the database gave. Numbers beyond JavaScript's exact ones become texts. PostgreSQL stores
 * what is nested deeper than `JSON.stringify` can go: what it holds below 500 levels is replaced by a text that says so.
 */
export function jsonText(value: unknown, indent?: number): string {
  try {
    return JSON.stringify(value, exactly, indent)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return JSON.stringify(cut(value, 0), exactly, indent)
  }
}

function exactly(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}

/** A copy without what is nested too deep. */
function cut(value: unknown, depth: number): unknown {
  if (value === null || typeof value !== 'object' || value instanceof Date) return value
  if (depth === DEEPEST) return `(nested deeper than ${DEEPEST} levels: not shown)`
  if (Array.isArray(value)) return value.map((each) => cut(each, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, cut(each, depth + 1)]))
}
