import { discardParked, parkedEvents, replayParked } from '../../database/engine.ts'
import { existingConsumer } from '../../outbox/existing-consumer.ts'
import { UsageError } from '../arguments.ts'
import type { Command } from '../command.ts'
import { withDatabase } from '../database.ts'
import { table } from '../table.ts'

export const consumerParked: Command = {
  usage: '<name>',
  help: 'Oldest first.',
  takes: [1, 1],
  options: {
    limit: { value: '<n>', help: 'How many. Default 50.' },
    after: { value: '<id>', help: 'Go on after this event.' },
  },
  async run(invocation) {
    const [name = ''] = invocation.positionals
    const page = { after: invocation.number('after'), limit: invocation.number('limit') }
    const rows = await withDatabase(invocation, async (db) => {
      await existingConsumer(db, name)
      return parkedEvents(db, name, page)
    })
    const columns = ['event_id', 'kind', 'type', 'job_id', 'times', 'again', 'parked_at', 'reason']
    invocation.answer(rows, () =>
      rows.length === 0 ? 'No parked events.' : table(rows as never, invocation.terminal, columns),
    )
    return undefined
  },
}

const change = (act: typeof replayParked, help: string, done: string): Command => ({
  usage: '<name> [<event id> …]',
  help,
  takes: [1, 1001],
  options: { all: { help: 'All of them.' } },
  async run(invocation) {
    const [name = '', ...rest] = invocation.positionals
    const ids = rest.map((_, place) => invocation.id(place + 1, 'the event'))
    if (invocation.has('all') === ids.length > 0) {
      throw new UsageError('which ones?', 'Give ids of fencepost consumer parked, or --all.')
    }
    const count = await withDatabase(invocation, (db) =>
      act(db, name, ids.length > 0 ? ids : undefined),
    )
    invocation.answer({ count }, () => `${count} ${count === 1 ? 'event' : 'events'} ${done}`)
    return undefined
  },
})

export const consumerReplay = change(
  replayParked,
  'They are read again, before anything else.',
  'will be read again',
)

export const consumerDiscard = change(discardParked, 'They are removed for good.', 'discarded')
