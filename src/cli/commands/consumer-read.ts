import { userInfo } from 'node:os'
import type { Queryable } from '../../database/database.ts'
import { ackEvents, parkEvent, readEvents } from '../../database/engine.ts'
import { jsonText } from '../../json-text.ts'
import { existingConsumer } from '../../outbox/existing-consumer.ts'
import { newReader } from '../../outbox/reader.ts'
import type { Command } from '../command.ts'
import { withDatabase } from '../database.ts'
import { eventLine } from '../event-lines.ts'

export const consumerRead: Command = {
  usage: '<name>',
  help: `A JSON object a line, or, in a terminal, a line for people. They come again until fencepost consumer ack; until
then, or until the lease ends, another reader gets nothing. Each call is a reader of its own, so that two people never
acknowledge what the other looks at: to read the same events again at once, give both calls one --reader.`,
  takes: [1, 1],
  options: {
    max: { value: '<n>', help: 'The most events. Default 100.' },
    reader: {
      value: '<name>',
      help: 'Who reads, for the lease. Default: user@host and what no other has.',
    },
    lease: { value: '<duration>', help: 'How long nobody else may read. Default 30s.' },
  },
  async run(invocation) {
    const { terminal, json } = invocation
    const [consumer = ''] = invocation.positionals
    const max = invocation.number('max')
    const lease = invocation.text('lease')
    const { events, nothing } = await withDatabase(invocation, async (db) => {
      const events = await readEvents(db, {
        consumer,
        reader: invocation.text('reader') ?? `${user()}@${newReader()}`,
        ...(max === undefined ? {} : { max }),
        ...(lease === undefined ? {} : { lease }),
      })
      return { events, nothing: events.length === 0 ? await whyNothing(db, consumer) : '' }
    })
    const isForPeople = terminal.interactive && !json
    for (const event of events) {
      terminal.write(`${isForPeople ? eventLine(event, terminal) : jsonText(event)}\n`)
    }
    const last = events.at(-1)
    terminal.note(
      last === undefined
        ? nothing
        : `When they are done: fencepost consumer ack ${consumer} ${last.position}`,
    )
    return undefined
  },
}

async function whyNothing(db: Queryable, consumer: string): Promise<string> {
  const { reader, leased_until } = await existingConsumer(db, consumer)
  return reader === null || leased_until === null
    ? 'Nothing new, or a transaction is reading it.'
    : `Nothing: ${reader} has the lease until ${leased_until.toISOString()}, or until it has acknowledged.`
}

/** Who calls. Some containers run as a number that has no name. */
function user(): string {
  try {
    return userInfo().username
  } catch {
    return `user-${process.getuid?.() ?? 'unknown'}`
  }
}

export const consumerAck: Command = {
  usage: '<name> <position>',
  help: 'All up to and with this position is done, and does not come again.',
  takes: [2, 2],
  async run(invocation) {
    const [consumer = '', position = ''] = invocation.positionals
    const moved = await withDatabase(invocation, (db) => ackEvents(db, consumer, position))
    invocation.answer({ consumer, moved }, () =>
      moved ? `consumer ${consumer} has moved on` : `consumer ${consumer} had passed it before`,
    )
    return undefined
  },
}

export const consumerPark: Command = {
  usage: '<name> <position>',
  help: 'Acknowledge it then like the others.',
  takes: [2, 2],
  options: { reason: { value: '<text>', help: 'Why it cannot be delivered.' } },
  async run(invocation) {
    const [consumer = '', position = ''] = invocation.positionals
    const reason = invocation.text('reason') ?? ''
    await withDatabase(invocation, (db) => parkEvent(db, consumer, position, reason))
    invocation.answer({ consumer, position, reason }, () => 'the event is set aside')
    return undefined
  },
}
