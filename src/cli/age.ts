/** A time in words: 0.4 s, 12 s, 3 min, 5 h, 2 d. */
export function age(seconds: number): string {
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`
  return `${Math.round(seconds / 86_400)} d`
}
