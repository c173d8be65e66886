/**
 * What the workflows of the benchmark do, the same for every system: `stepsOf` gives the code of the
 * steps, which an adapter puts into the shape that its library wants. Steps do nothing but pass a small
 * value on, and check that they were given the one that the step before returned.
 */

/** Steps one after the other. */
const linear = {
  steps: 3,
  /** How often a handler runs in one run. */
  handledPerRun: 3,
  input: (n) => ({ n, steps: 0 }),
  /** `step(2, value)` is the second step; it returns what the third is given. */
  stepsOf: (tally) => ({
    step(number, { n, steps }) {
      if (steps !== number - 1)
        throw new Error(`step ${number} was given ${steps}, not ${number - 1}`)
      tally.handle(3 * n + steps)
      return { n, steps: number }
    },
  }),
}

const WIDTH = 1000

/** One step for each of many items, and one that is given all their results. */
const fan = {
  width: WIDTH,
  handledPerRun: WIDTH + 1,
  input: (n) => ({
    n,
    items: Array.from({ length: WIDTH }, (_, index) => n * (WIDTH + 1) + index),
  }),
  stepsOf: (tally) => ({
    item(value) {
      tally.handle(value)
      return value + 1
    },
    join(results) {
      if (results.length !== WIDTH) throw new Error(`${results.length} results, not ${WIDTH}`)
      for (const [index, result] of results.entries()) {
        if (result !== results[0] + index) throw new Error(`result ${index} is ${result}`)
      }
      tally.handle(results.at(-1))
      return results.length
    },
  }),
}

export const flows = { linear, fan }
