import {
  configureType,
  getType,
  pauseType,
  resumeType,
  type TypeChange,
  types,
} from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'
import { type OptionSpec, UsageError } from '../arguments.ts'
import type { Command, Invocation } from '../command.ts'
import { withDatabase } from '../database.ts'
import { record, table } from '../table.ts'

const COLUMNS = [
  'type',
  'paused',
  'accept',
  'max_attempts',
  'max_running',
  'max_pending',
  'timeout',
  'keep_finished',
  'overridden',
] as const

export const typeList: Command = {
  help: 'By name. The whole of one: fencepost type get <type>. How many jobs each has: fencepost stats.',
  async run(invocation) {
    const rows = await withDatabase(invocation, (db) => types(db))
    invocation.answer(rows, () =>
      rows.length === 0
        ? 'No types: a type begins with its first job, its first worker or its first setting.'
        : table(rows as never, invocation.terminal, COLUMNS),
    )
    return undefined
  },
}

export const typeGet: Command = {
  usage: '<type>',
  help: 'All settings of a type; overridden names those that an operator has set.',
  takes: [1, 1],
  async run(invocation) {
    await show(invocation)
    return undefined
  },
}

/** The settings, each an option with - for _ in its name. SQL says which values fit. */
const settings: Readonly<Record<string, OptionSpec>> = {
  'max-running': { value: '<n>', help: 'How many may run at once, over all workers.' },
  'max-pending': { value: '<n>', help: 'How many may wait before enqueues are refused.' },
  'max-attempts': { value: '<n>', help: 'Attempts before a job is dead-lettered.' },
  timeout: { value: '<duration>', help: 'The limit of one attempt.' },
  'backoff-base': { value: '<duration>', help: 'The wait before the second attempt.' },
  'backoff-factor': { value: '<number>', help: 'By how much each wait is longer, 1 to 100.' },
  'backoff-cap': { value: '<duration>', help: 'The longest wait.' },
  'backoff-jitter': { value: '<0-1>', help: 'The share of a wait that is drawn at random.' },
  'max-payload-bytes': { value: '<n>', help: 'The largest payload or result.' },
  'payload-check': { value: '<path>', help: 'A predicate that payloads must satisfy.' },
  accept: { value: '<true|false>', help: 'False refuses enqueues.' },
  'publish-enqueued': { value: '<true|false>', help: 'Whether enqueues are events.' },
  'publish-started': { value: '<true|false>', help: 'Whether starts are events.' },
  'dead-letter-alert': { value: '<n>', help: 'Dead letters at which the alert fires.' },
  'keep-finished': { value: '<duration>', help: 'How long finished jobs are kept.' },
}

export const typeConfigure: Command = {
  usage: '<type>',
  help: `What is set here stays, whatever code declares, until it is given back with --reset. 0 is no limit.

  fencepost type configure email.send --max-running 20 --timeout 30s
  fencepost type configure email.send --reset max_running,timeout`,
  takes: [1, 1],
  options: {
    ...settings,
    reset: { value: '<setting,…>', help: 'Settings that are given back to code.' },
  },
  async run(invocation) {
    const reset = invocation.words('reset')
    const change = changeOf(invocation)
    if (reset === undefined && Object.keys(change).length === 0) {
      throw new UsageError('what should be set?', 'For example --max-attempts 3.')
    }
    await withDatabase(invocation, (db) =>
      configureType(db, typeOf(invocation), { ...change, reset }),
    )
    await show(invocation)
    return undefined
  },
}

/** The settings that were given, each as what its option takes: a number, true or false, else a text. */
function changeOf(invocation: Invocation): TypeChange {
  const given = Object.entries(invocation.filter(settings)).map(([name, text]) => {
    const option = name.replaceAll('_', '-')
    switch (settings[option]?.value) {
      case '<n>':
        return [name, invocation.number(option)]
      case '<number>':
      case '<0-1>':
        return [name, numberOf(option, text)]
      case '<true|false>':
        return [name, truthOf(option, text)]
      default:
        return [name, text]
    }
  })
  return Object.fromEntries(given)
}

function numberOf(option: string, text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value)) {
    throw new UsageError(`--${option} must be a number, not ${JSON.stringify(text)}`)
  }
  return value
}

function truthOf(option: string, text: string): boolean {
  if (text === 'true' || text === 'false') return text === 'true'
  throw new UsageError(`--${option} must be true or false, not ${JSON.stringify(text)}`)
}

const reason = { value: '<text>', help: 'Why; kept in the event.' }

export const typePause: Command = {
  usage: '<type>',
  help: 'Stops claims; what runs goes on, and so do enqueues.',
  takes: [1, 1],
  options: { reason },
  async run(invocation) {
    const type = typeOf(invocation)
    await withDatabase(invocation, (db) => pauseType(db, type, invocation.text('reason')))
    invocation.answer({ type, paused: true }, () => `${type} is paused`)
    return undefined
  },
}

export const typeResume: Command = {
  usage: '<type>',
  help: 'Lets claims go on.',
  takes: [1, 1],
  options: { reason },
  async run(invocation) {
    const type = typeOf(invocation)
    await withDatabase(invocation, (db) => resumeType(db, type, invocation.text('reason')))
    invocation.answer({ type, paused: false }, () => `${type} goes on`)
    return undefined
  },
}

function typeOf({ positionals: [type = ''] }: Invocation): string {
  return type
}

async function show(invocation: Invocation): Promise<void> {
  const type = typeOf(invocation)
  const found = await withDatabase(invocation, (db) => getType(db, type))
  if (found === undefined) {
    throw new FencepostError('JE002', `the type ${type} does not exist`, {
      hint: 'See fencepost type list.',
    })
  }
  invocation.answer(found, () => record({ ...found }, invocation.terminal))
}
