/** The value below which the share `p` (0..1) of the values lies, linear between neighbours. */
export function quantile(values, p) {
  if (values.length === 0) return undefined
  const sorted = [...values].sort((a, b) => a - b)
  const place = (sorted.length - 1) * p
  const low = Math.floor(place)
  const high = Math.ceil(place)
  return sorted[low] + (sorted[high] - sorted[low]) * (place - low)
}

export const median = (values) => quantile(values, 0.5)

/** A figure as it is published: the median of the rounds and how far they lie apart. */
export function summary(values) {
  const present = values.filter((value) => Number.isFinite(value))
  if (present.length === 0) return undefined
  return {
    median: median(present),
    min: Math.min(...present),
    max: Math.max(...present),
    rounds: present.length,
  }
}

/**
 * Ratios are taken within a round and summarised afterwards: two systems measured in the same
 * minute share the machine's mood, and the ratio drops it.
 */
export function ratios(mine, theirs) {
  return summary(
    mine.map((value, round) =>
      theirs[round] === undefined || value === undefined ? Number.NaN : value / theirs[round],
    ),
  )
}
