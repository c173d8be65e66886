import type { EventFilter } from '../database/engine.ts'
import type { OptionSpec } from './arguments.ts'
import type { Invocation } from './command.ts'

/** Places in the event log, as people write them. */
export const PLACES = 'now, beginning (of what is kept), a time, or a position'

/** Which events are meant. */
export const eventFilterOptions: Readonly<Record<string, OptionSpec>> = {
  kinds: { value: '<kind,…>', help: 'Of these kinds; run.* means all that begin so.' },
  types: { value: '<type,…>', help: 'Of jobs of these types.' },
  tenant: { value: '<name>', help: 'Of this tenant.' },
}

/** What {@link eventFilterOptions} say. */
export function eventFilter(invocation: Invocation): EventFilter {
  const [kinds, types] = [invocation.words('kinds'), invocation.words('types')]
  const tenant = invocation.text('tenant')
  return {
    ...(kinds === undefined ? {} : { kinds }),
    ...(types === undefined ? {} : { types }),
    ...(tenant === undefined ? {} : { tenant }),
  }
}

/** What a new reader of the log can be given: a consumer, or a webhook. */
export const readerOptions: Readonly<Record<string, OptionSpec>> = {
  ...eventFilterOptions,
  start: { value: '<place>', help: `Where it begins: ${PLACES}. Default now.` },
  'max-lag': {
    value: '<duration>',
    help: 'How old its oldest unread event may be; none for no limit. Default 7d.',
  },
}

/** What {@link readerOptions} say. */
export function readerSettings(invocation: Invocation) {
  const lag = invocation.text('max-lag')
  return {
    filter: eventFilter(invocation),
    start: invocation.text('start'),
    max_lag: lag === 'none' ? null : lag,
  }
}
