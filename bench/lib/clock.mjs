/**
 * Milliseconds of the machine's monotonic clock, with fractions. Every process of the machine reads
 * the same clock, so a time taken in one can be subtracted from a time taken in another.
 */
export const now = () => Number(process.hrtime.bigint()) / 1e6

/** Waits until `now()` is at least `time`. */
export const until = (time) =>
  new Promise((resolve) => setTimeout(resolve, Math.max(0, time - now())))

/** Asks again and again, `every` ms apart, until the answer is true; the time of that answer. */
export async function whenTrue(ask, { every = 5, within, what }) {
  const deadline = now() + within
  for (;;) {
    if (await ask()) return now()
    if (now() > deadline) throw new Error(`${what}: not within ${Math.round(within / 1000)} s`)
    await until(now() + every)
  }
}
