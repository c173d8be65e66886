// A trade: generated at the price of its day, checked for its risk, approved by a person where that is
// high, settled, and written to the audit log, whatever became of it: a refusal and a failure as well.

import { defineWorkflow } from 'fencepost'
import * as jobs from './jobs.ts'
import { Order } from './trade.ts'

export { prepare } from './tables.ts'

/** Everything that a worker has to run. */
export const work = Object.values(jobs)

export const workflow = defineWorkflow('trade', { input: Order })
  .task('generate', { type: jobs.generate, input: '$.input' })
  .task('risk', { type: jobs.checkRisk, after: ['generate'], input: '$.tasks.generate' })
  .approval('review', {
    after: ['risk'],
    when: '$.tasks.risk.level == "high"',
    reason: 'A trade of high risk',
    expiresAfter: '1d',
    onReject: 'continue',
  })
  .task('settle', {
    type: jobs.settle,
    after: ['risk', 'review'],
    when: '!($.tasks.review.approved == false)', // approved, or nobody had to be asked
    input: '$.tasks.generate',
    onFailure: 'continue',
  })
  .task('audit', {
    type: jobs.audit,
    after: ['risk', 'settle'],
    input: {
      trade: '$.tasks.generate',
      risk: '$.tasks.risk',
      review: '$.tasks.review',
      settled: '$.tasks.settle',
      error: '$.errors.settle',
    },
  })
