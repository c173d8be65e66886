import { type ConsumerRow, consumers, createConsumer, seekConsumer } from '../../database/engine.ts'
import { dropExistingConsumer, existingConsumer } from '../../outbox/existing-consumer.ts'
import { age } from '../age.ts'
import type { Command } from '../command.ts'
import { withDatabase } from '../database.ts'
import { PLACES, readerOptions, readerSettings } from '../event-options.ts'
import { record, table } from '../table.ts'

export const consumerList: Command = {
  help: 'lag counts events of all kinds that it has not passed; behind is the age of the oldest.',
  async run(invocation) {
    const rows = await withDatabase(invocation, consumers)
    invocation.answer(rows, () =>
      rows.length === 0 ? 'No consumers.' : table(rows.map(inShort), invocation.terminal),
    )
    return undefined
  },
}

function inShort(row: ConsumerRow) {
  return {
    name: row.expired_at === null ? row.name : `${row.name} (expired)`,
    lag: row.lag_events,
    behind: age(row.lag_seconds),
    parked: row.parked,
    reader: row.reader,
    moved_at: row.moved_at,
    events: [...(row.kinds ?? []), ...(row.types ?? []), ...(row.tenant ? [row.tenant] : [])],
  }
}

export const consumerCreate: Command = {
  usage: '<name>',
  help: 'May be repeated; one that exists with other settings is refused.',
  takes: [1, 1],
  options: readerOptions,
  async run(invocation) {
    const [name = ''] = invocation.positionals
    const isNew = await withDatabase(invocation, (db) =>
      createConsumer(db, { name, ...readerSettings(invocation) }),
    )
    invocation.answer({ name, created: isNew }, () =>
      isNew ? `consumer ${name} is made` : `consumer ${name} was there`,
    )
    return undefined
  },
}

export const consumerGet: Command = {
  usage: '<name>',
  takes: [1, 1],
  async run(invocation) {
    const [name = ''] = invocation.positionals
    const row = await withDatabase(invocation, (db) => existingConsumer(db, name))
    invocation.answer(row, () => record({ ...row }, invocation.terminal))
    return undefined
  },
}

export const consumerSeek: Command = {
  usage: '<name> <place>',
  help: `A place is ${PLACES}. Whoever reads it loses the lease; one that had expired reads again.`,
  takes: [2, 2],
  async run(invocation) {
    const [name = '', place = ''] = invocation.positionals
    const position = await withDatabase(invocation, (db) => seekConsumer(db, name, place))
    invocation.answer({ name, position }, () => `consumer ${name} stands at ${position}`)
    return undefined
  },
}

export const consumerDrop: Command = {
  usage: '<name>',
  help: 'Its position and its parked events go with it.',
  takes: [1, 1],
  async run(invocation) {
    const [name = ''] = invocation.positionals
    await withDatabase(invocation, (db) => dropExistingConsumer(db, name))
    invocation.answer({ name, dropped: true }, () => `consumer ${name} is gone`)
    return undefined
  },
}
