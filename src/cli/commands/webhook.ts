import * as engine from '../../database/engine.ts'
import { dropExistingWebhook, existingWebhook } from '../../outbox/existing-webhook.ts'
import { type OptionSpec, UsageError } from '../arguments.ts'
import type { Command, Invocation } from '../command.ts'
import { withDatabase } from '../database.ts'
import { eventFilter, eventFilterOptions, readerOptions, readerSettings } from '../event-options.ts'
import { record, table } from '../table.ts'

const secretOption: OptionSpec = {
  value: '<secret>',
  help: 'whsec_ and base64; - reads it from standard input. Default: one is made.',
}

const COLUMNS = ['name', 'url', 'paused', 'waiting', 'dead_letters', 'lag_events', 'error'] as const

export const webhookCreate: Command = {
  usage: '<name> <endpoint>',
  help: `Makes an endpoint that gets events; fencepost relay webhook delivers them. Shows the secret of its signatures, this
once. Without a filter it gets all events.

  fencepost webhook create billing https://example.com/hooks --kinds 'job.completed,run.*'`,
  takes: [2, 2],
  options: { ...readerOptions, secret: secretOption },
  async run(invocation) {
    const [name = '', url = ''] = invocation.positionals
    const given = await secretOf(invocation)
    const secret = await withDatabase(invocation, (db) =>
      engine.createWebhook(db, { name, url, secret: given, ...readerSettings(invocation) }),
    )
    invocation.answer({ name, secret }, () => secret)
    return undefined
  },
}

export const webhookList: Command = {
  help: 'By name. All about one: fencepost webhook get <name>.',
  async run(invocation) {
    const rows = await withDatabase(invocation, (db) => engine.webhooks(db))
    invocation.answer(rows, () =>
      rows.length === 0 ? 'No webhooks.' : table(rows as never, invocation.terminal, COLUMNS),
    )
    return undefined
  },
}

export const webhookGet: Command = {
  usage: '<name>',
  help: 'Its settings, and how it stands.',
  takes: [1, 1],
  async run(invocation) {
    await show(invocation)
    return undefined
  },
}

const changeOptions: Readonly<Record<string, OptionSpec>> = {
  endpoint: { value: '<url>', help: 'Where messages go.' },
  'max-attempts': { value: '<n>', help: 'How often a message is tried.' },
  timeout: { value: '<duration>', help: 'How long one attempt may take.' },
  'max-running': { value: '<n>', help: 'How many messages are on their way at once.' },
  'backoff-base': { value: '<duration>', help: 'The wait before the second attempt.' },
  'backoff-cap': { value: '<duration>', help: 'The longest wait between attempts.' },
  ...eventFilterOptions,
  'no-filter': { help: 'All events from now on.' },
}

export const webhookConfigure: Command = {
  usage: '<name>',
  help: `Changes what is given; the rest stays. --kinds, --types and --tenant together make the new filter.

  fencepost webhook configure billing --endpoint https://new.example.com/hooks --timeout 10s`,
  takes: [1, 1],
  options: changeOptions,
  async run(invocation) {
    const [name = ''] = invocation.positionals
    if (!Object.keys(changeOptions).some((option) => invocation.has(option))) {
      throw new UsageError('what should be set?', 'For example --max-attempts 3.')
    }
    const filter = eventFilter(invocation)
    const isNarrowed = Object.keys(filter).length > 0
    if (invocation.has('no-filter') && isNarrowed) {
      throw new UsageError('give a filter or --no-filter, not both')
    }
    await withDatabase(invocation, (db) =>
      engine.configureWebhook(db, name, {
        url: invocation.text('endpoint'),
        filter: isNarrowed || invocation.has('no-filter') ? filter : undefined,
        max_attempts: invocation.number('max-attempts'),
        timeout: invocation.text('timeout'),
        max_running: invocation.number('max-running'),
        backoff_base: invocation.text('backoff-base'),
        backoff_cap: invocation.text('backoff-cap'),
      }),
    )
    await show(invocation)
    return undefined
  },
}

/** Lets a webhook send nothing, or go on. */
function pausing(paused: boolean, help: string, done: string): Command {
  return {
    usage: '<name>',
    help,
    takes: [1, 1],
    options: { reason: { value: '<text>', help: 'Why; kept in the event.' } },
    async run(invocation) {
      const [name = ''] = invocation.positionals
      const reason = invocation.text('reason')
      await withDatabase(invocation, (db) => engine.configureWebhook(db, name, { paused, reason }))
      invocation.answer({ name, paused }, () => `webhook ${name} ${done}`)
      return undefined
    },
  }
}

export const webhookPause = pausing(
  true,
  'Nothing is sent; events wait in the log, as long as its max-lag allows.',
  'is paused',
)

export const webhookResume = pausing(false, 'What has waited is sent.', 'goes on')

export const webhookRotate: Command = {
  usage: '<name>',
  help: 'Makes a new secret and shows it, this once. Messages are signed with the old one, too, for a while.',
  takes: [1, 1],
  options: {
    'keep-old': { value: '<duration>', help: 'How long the old one signs. Default 1d.' },
    secret: secretOption,
  },
  async run(invocation) {
    const [name = ''] = invocation.positionals
    const given = await secretOf(invocation)
    const secret = await withDatabase(invocation, (db) =>
      engine.rotateWebhookSecret(db, name, {
        keep_old: invocation.text('keep-old'),
        secret: given,
      }),
    )
    invocation.answer({ name, secret }, () => secret)
    return undefined
  },
}

export const webhookDrop: Command = {
  usage: '<name>',
  help: 'Removes it and cancels the deliveries that wait.',
  takes: [1, 1],
  async run(invocation) {
    const [name = ''] = invocation.positionals
    await withDatabase(invocation, (db) => dropExistingWebhook(db, name))
    invocation.answer({ name, dropped: true }, () => `webhook ${name} is gone`)
    return undefined
  },
}

async function secretOf(invocation: Invocation): Promise<string | undefined> {
  const text = invocation.text('secret')
  return text === '-' ? (await invocation.input()).trim() : text
}

async function show(invocation: Invocation): Promise<void> {
  const [name = ''] = invocation.positionals
  const row = await withDatabase(invocation, (db) => existingWebhook(db, name))
  invocation.answer(row, () => record({ ...row }, invocation.terminal))
}
