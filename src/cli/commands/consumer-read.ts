import { ackEvents, parkEvent, readEvents } from '../../database/engine.ts'
import type { Command } from '../command.ts'
import { withDatabase } from '../database.ts'
import { eventLine } from '../event-lines.ts'

export const consumerRead: Command = {
  usage: '<name>',
  help: `A JSON object a line, or, in a terminal, a line for people. They come again until fencepost consumer ack; until
then, or until the lease ends, another reader gets nothing.`,
  takes: [1, 1],
  options: {
    max: { value: '<n>', help: 'The most events. Default 100.' },
    reader: { value: '<name>', help: 'Who reads, for the lease. Default cli.' },
    lease: { value: '<duration>', help: 'How long nobody else may read. Default 30s.' },
  },
  async run(invocation) {
    const { terminal, json } = invocation
    const [consumer = ''] = invocation.positionals
    const max = invocation.number('max')
    const lease = invocation.text('lease')
    const events = await withDatabase(invocation, (db) =>
      readEvents(db, {
        consumer,
        reader: invocation.text('reader') ?? 'cli',
        ...(max === undefined ? {} : { max }),
        ...(lease === undefined ? {} : { lease }),
      }),
    )
    const isForPeople = terminal.interactive && !json
    for (const event of events) {
      terminal.write(`${isForPeople ? eventLine(event, terminal) : JSON.stringify(event)}\n`)
    }
    const last = events.at(-1)
    terminal.note(
      last === undefined
        ? 'Nothing new, or another reader has the lease.'
        : `When they are done: fencepost consumer ack ${consumer} ${last.position}`,
    )
    return undefined
  },
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
