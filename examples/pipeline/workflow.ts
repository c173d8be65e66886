// A pipeline: a package is linted and tested side by side, packed, and deployed once somebody approves.

import { defineWorkflow } from 'fencepost'
import { z } from 'zod'
import * as jobs from './jobs.ts'

/** Everything that a worker has to run. */
export const work = Object.values(jobs)

export const workflow = defineWorkflow('pipeline', {
  input: z.object({
    /** The directory of the package. */
    source: z.string(),
    /** Where it is copied and built. */
    workspace: z.string(),
    /** Where what was built goes to. */
    target: z.string(),
  }),
})
  .task('checkout', {
    type: jobs.checkout,
    input: { source: '$.input.source', workspace: '$.input.workspace', run: '$.run.id' },
  })
  .task('lint', { type: jobs.lint, after: ['checkout'], input: '$.tasks.checkout', timeout: '2m' })
  .task('test', { type: jobs.test, after: ['checkout'], input: '$.tasks.checkout', timeout: '10m' })
  .task('build', { type: jobs.build, after: ['lint', 'test'], input: '$.tasks.checkout' })
  .approval('release', {
    after: ['build'],
    reason: 'Linted, tested and built: shall it be deployed?',
    expiresAfter: '7d',
  })
  .task('deploy', {
    type: jobs.deploy,
    after: ['release'],
    input: {
      artifact: '$.tasks.build',
      target: '$.input.target',
      approvedBy: '$.tasks.release.decided_by',
    },
  })
