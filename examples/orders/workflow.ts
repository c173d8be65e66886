// The fulfilment of an order. When something fails for good (a card declined, a country that no carrier
// goes to, a review rejected), what was done is undone: unpacked, refunded, released, in this order.

import { defineWorkflow } from 'fencepost'
import * as jobs from './jobs.ts'
import { Order } from './order.ts'

export { prepare } from './tables.ts'

/** Everything that a worker has to run. */
export const work = Object.values(jobs)

export const workflow = defineWorkflow('order.fulfil', {
  input: Order,
  onFailure: 'compensate',
})
  .task('validate', { type: jobs.validate, input: '$.input' })
  .task('reserve', {
    type: jobs.reserve,
    after: ['validate'],
    input: '$.input',
    compensate: jobs.release,
  })
  .task('charge', {
    type: jobs.charge,
    after: ['reserve'],
    input: { id: '$.input.id', card: '$.input.card', cents: '$.tasks.validate.cents' },
    compensate: jobs.refund,
  })
  .approval('review', {
    after: ['charge'],
    when: '$.tasks.validate.cents > 100000',
    reason: 'An order of more than 1,000',
    expiresAfter: '3d',
  })
  .task('pack', {
    type: jobs.pack,
    after: ['charge', 'review'],
    input: { id: '$.input.id', parcels: '$.tasks.validate.parcels' },
    compensate: jobs.unpack,
  })
  .map('ship', {
    type: jobs.ship,
    after: ['pack'],
    over: '$.tasks.validate.parcels',
    maxParallel: 4,
    input: { id: '$.input.id', country: '$.input.country', parcel: '$.item' },
  })
  .task('invoice', {
    type: jobs.invoice,
    after: ['ship'],
    input: {
      id: '$.input.id',
      cents: '$.tasks.charge.cents',
      shipped: '$.tasks.ship',
    },
  })
