// One load, three branches that do not wait for each other, one join.

import { defineWorkflow } from 'fencepost'
import { z } from 'zod'
import * as jobs from './jobs.ts'

/** Everything that a worker has to run. */
export const work = Object.values(jobs)

export const workflow = defineWorkflow('gems', {
  input: z.object({
    /** How many rows a job loads: in one statement, which takes 65,535 parameters, six a row. */
    chunk: z.int().positive().max(10_000),
  }),
})
  .task('split', { type: jobs.split, input: '$.input' })
  .map('load', {
    type: jobs.load,
    after: ['split'],
    over: '$.tasks.split.chunks',
    maxParallel: 4,
    input: '$.item',
  })
  .task('by_cut', { type: jobs.average, after: ['load'], input: { quality: 'cut' } })
  .task('by_color', { type: jobs.average, after: ['load'], input: { quality: 'color' } })
  .task('by_clarity', { type: jobs.average, after: ['load'], input: { quality: 'clarity' } })
  .task('check', {
    type: jobs.check,
    after: ['by_cut', 'by_color', 'by_clarity'],
    input: {
      rows: '$.tasks.split.rows',
      chunks: '$.tasks.load',
      averages: {
        cut: '$.tasks.by_cut',
        color: '$.tasks.by_color',
        clarity: '$.tasks.by_clarity',
      },
    },
  })
