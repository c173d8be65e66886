import type { Queryable } from '../../database/database.ts'
import { eventPosition, listEvents, type OutboxEvent } from '../../database/engine.ts'
import { jsonText } from '../../json-text.ts'
import { follow } from '../../outbox/follow.ts'
import { UsageError } from '../arguments.ts'
import type { Command, Invocation } from '../command.ts'
import { withDatabase } from '../database.ts'
import { eventLine } from '../event-lines.ts'
import { eventFilter, eventFilterOptions } from '../event-options.ts'
import { tell } from '../failure.ts'

/** The longest pause between two looks, in ms. */
const POLL = 500

export const events: Command = {
  help: `In commit order: an event whose transaction commits late stands where it was committed. For people in a terminal,
else, and with --json, a JSON object a line; each has the position to go on from with --after.

  fencepost events --follow --kinds 'job.dead_lettered,run.*'`,
  options: {
    follow: { help: 'Go on with what happens, until Ctrl-C.' },
    after: {
      value: '<place>',
      help: 'beginning, now, a time or a position. Default: now with --follow, else beginning.',
    },
    limit: { value: '<n>', help: 'How many, without --follow. Default 100.' },
    ...eventFilterOptions,
  },
  async run(invocation) {
    const isFollowing = invocation.has('follow')
    if (isFollowing && invocation.has('limit')) {
      throw new UsageError('--follow and --limit exclude each other')
    }
    return withDatabase(invocation, (db) =>
      (isFollowing ? followed : listed)(invocation, db, writer(invocation)),
    )
  },
}

type Write = (event: OutboxEvent) => void

function writer({ terminal, json }: Invocation): Write {
  if (terminal.interactive && !json) {
    return (event) => terminal.write(`${eventLine(event, terminal)}\n`)
  }
  return (event) => terminal.write(`${jsonText(event)}\n`)
}

async function listed(invocation: Invocation, db: Queryable, write: Write): Promise<undefined> {
  const max = invocation.number('limit') ?? 100
  const filter = eventFilter(invocation)
  const { events, reached } = await listEvents(db, { after: invocation.text('after'), max, filter })
  for (const event of events) write(event)
  if (events.length === max) invocation.terminal.note(`Go on with --after ${reached}`)
  return undefined
}

async function followed(invocation: Invocation, db: Queryable, write: Write): Promise<undefined> {
  const { terminal, json } = invocation
  const stop = new AbortController()
  terminal.untilAsked().then(() => stop.abort())
  const looks = follow(db, {
    after: await eventPosition(db, invocation.text('after')),
    filter: eventFilter(invocation),
    max: 500,
    poll: POLL,
    signal: stop.signal,
    onTrouble: (error) => tell(error, terminal, json),
  })
  for await (const { events } of looks) for (const event of events) write(event)
  return undefined
}
