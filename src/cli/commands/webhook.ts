import * as engine from '../../database/engine.ts'
import { interval } from '../../definitions/duration.ts'
import { dropExistingWebhook } from '../../outbox/existing-webhook.ts'
import { type OptionSpec, UsageError } from '../arguments.ts'
import type { Command, Invocation } from '../command.ts'
import { withDatabase } from '../database.ts'
import { record, table } from '../table.ts'

const filterOptions: Readonly<Record<string, OptionSpec>> = {
  kind: { value: '<kind>', help: 'Only events of this kind, as run.* too; may be given again.' },
  type: { value: '<type>', help: 'Only of jobs of this type; may be given again.' },
  tenant: { value: '<tenant>', help: 'Only of this tenant.' },
}

const secretOption: OptionSpec = {
  value: '<secret>',
  help: 'whsec_ and base64; - reads it from standard input. Default: one is made.',
}

const settingOptions: Readonly<Record<string, OptionSpec>> = {
  url: { value: '<url>', help: 'Where messages go.' },
  'max-attempts': { value: '<n>', help: 'How often a message is tried.' },
  timeout: { value: '<duration>', help: 'How long one attempt may take.' },
  'max-running': { value: '<n>', help: 'How many messages are on their way at once.' },
  'backoff-base': { value: '<duration>', help: 'The wait before the second attempt.' },
  'backoff-cap': { value: '<duration>', help: 'The longest wait between attempts.' },
}

const COLUMNS = ['name', 'url', 'paused', 'waiting', 'dead_letters', 'lag_events', 'error'] as const

export const webhookCreate: Command = {
  usage: '<name> <url>',
  help: `Makes an endpoint that gets events; fencepost relay webhook delivers them. Shows the secret of its signatures, this
once. Without a filter it gets all events.

  fencepost webhook create billing https://example.com/hooks --kind job.completed --kind 'run.*'`,
  takes: [2, 2],
  options: {
    ...filterOptions,
    secret: secretOption,
    from: { value: '<place>', help: 'Where it begins: now (default), beginning, a time.' },
  },
  async run(invocation) {
    const [name = '', url = ''] = invocation.positionals
    const given = await secretOf(invocation)
    const secret = await withDatabase(invocation, (db) =>
      engine.createWebhook(db, {
        name,
        url,
        filter: filterOf(invocation),
        secret: given,
        start: invocation.text('from'),
      }),
    )
    invocation.answer({ name, secret }, () => secret)
    return undefined
  },
}

export const webhookList: Command = {
  usage: '[<name>]',
  help: 'Webhooks and how they stand; all about one, by its name.',
  takes: [0, 1],
  async run(invocation) {
    const [name] = invocation.positionals
    const rows = await withDatabase(invocation, (db) => engine.webhooks(db, { name }))
    if (name === undefined) {
      invocation.answer(rows, () =>
        rows.length === 0 ? 'No webhooks.' : table(rows as never, invocation.terminal, COLUMNS),
      )
      return undefined
    }
    const [row] = rows
    if (row === undefined) throw new UsageError(`there is no webhook ${name}`)
    invocation.answer(row, () => record(row as never, invocation.terminal))
    return undefined
  },
}

const changeOptions: Readonly<Record<string, OptionSpec>> = {
  ...settingOptions,
  ...filterOptions,
  'no-filter': { help: 'All events from now on.' },
  pause: { help: 'Send nothing; events wait in the log.' },
  resume: { help: 'Go on.' },
  reason: { value: '<text>', help: 'Why.' },
}

export const webhookConfigure: Command = {
  usage: '<name>',
  help: `Changes what is given; the rest stays. --kind, --type and --tenant together make the new filter.

  fencepost webhook configure billing --pause --reason 'they are moving'
  fencepost webhook configure billing --resume --url https://new.example.com/hooks`,
  takes: [1, 1],
  options: changeOptions,
  async run(invocation) {
    const [name = ''] = invocation.positionals
    if (!Object.keys(changeOptions).some((option) => invocation.has(option))) {
      throw new UsageError('nothing is changed', 'See fencepost webhook configure --help.')
    }
    if (invocation.has('pause') && invocation.has('resume')) {
      throw new UsageError('give --pause or --resume, not both')
    }
    const filter = filterOf(invocation)
    if (invocation.has('no-filter') && filter !== undefined) {
      throw new UsageError('give a filter or --no-filter, not both')
    }
    const paused = invocation.has('pause') || (invocation.has('resume') ? false : undefined)
    await withDatabase(invocation, (db) =>
      engine.configureWebhook(db, name, {
        url: invocation.text('url'),
        filter: invocation.has('no-filter') ? {} : filter,
        paused,
        reason: invocation.text('reason'),
        max_attempts: invocation.number('max-attempts'),
        timeout: intervalOf(invocation, 'timeout'),
        max_running: invocation.number('max-running'),
        backoff_base: intervalOf(invocation, 'backoff-base'),
        backoff_cap: intervalOf(invocation, 'backoff-cap'),
      }),
    )
    invocation.answer({ name }, () => `${name} is configured`)
    return undefined
  },
}

export const webhookRotate: Command = {
  usage: '<name>',
  help: 'Makes a new secret and shows it, this once. Messages are signed with the old one, too, for a while.',
  takes: [1, 1],
  options: {
    'keep-old': { value: '<duration>', help: 'How long the old one signs. Default 1 day.' },
    secret: secretOption,
  },
  async run(invocation) {
    const [name = ''] = invocation.positionals
    const given = await secretOf(invocation)
    const secret = await withDatabase(invocation, (db) =>
      engine.rotateWebhookSecret(db, name, {
        keep_old: intervalOf(invocation, 'keep-old'),
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
    invocation.answer({ name, dropped: true }, () => `${name} is removed`)
    return undefined
  },
}

function filterOf(invocation: Invocation): engine.EventFilter | undefined {
  const kinds = invocation.texts('kind')
  const types = invocation.texts('type')
  const tenant = invocation.text('tenant')
  if (kinds.length === 0 && types.length === 0 && tenant === undefined) return undefined
  return {
    ...(kinds.length === 0 ? {} : { kinds }),
    ...(types.length === 0 ? {} : { types }),
    ...(tenant === undefined ? {} : { tenant }),
  }
}

async function secretOf(invocation: Invocation): Promise<string | undefined> {
  const text = invocation.text('secret')
  return text === '-' ? (await invocation.input()).trim() : text
}

function intervalOf(invocation: Invocation, option: string): string | undefined {
  const ms = invocation.milliseconds(option)
  return ms === undefined ? undefined : interval(ms)
}
