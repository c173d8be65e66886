import type { CommandEntry } from './commands.ts'

const consumer = () => import('./commands/consumer.ts')
const read = () => import('./commands/consumer-read.ts')
const parked = () => import('./commands/consumer-parked.ts')

/** The commands of the event log and its consumers, in the order of the help. */
export const consumerCommands: readonly CommandEntry[] = [
  {
    name: 'events',
    summary: 'Show what happened, and follow what happens',
    load: async () => (await import('./commands/events.ts')).events,
  },
  {
    name: 'consumer list',
    summary: 'List consumers of the event log, and how far behind each is',
    load: async () => (await consumer()).consumerList,
  },
  {
    name: 'consumer create',
    summary: 'Make a consumer',
    load: async () => (await consumer()).consumerCreate,
  },
  {
    name: 'consumer get',
    summary: 'Show a consumer',
    load: async () => (await consumer()).consumerGet,
  },
  {
    name: 'consumer seek',
    summary: 'Move a consumer',
    load: async () => (await consumer()).consumerSeek,
  },
  {
    name: 'consumer drop',
    summary: 'Remove a consumer',
    load: async () => (await consumer()).consumerDrop,
  },
  {
    name: 'consumer read',
    summary: 'Read the next events of a consumer',
    load: async () => (await read()).consumerRead,
  },
  {
    name: 'consumer ack',
    summary: 'Say that events are done',
    load: async () => (await read()).consumerAck,
  },
  {
    name: 'consumer park',
    summary: 'Set an event aside that cannot be delivered',
    load: async () => (await read()).consumerPark,
  },
  {
    name: 'consumer parked',
    summary: 'List the events that a consumer set aside',
    load: async () => (await parked()).consumerParked,
  },
  {
    name: 'consumer replay',
    summary: 'Let parked events be read again',
    load: async () => (await parked()).consumerReplay,
  },
  {
    name: 'consumer discard',
    summary: 'Remove parked events for good',
    load: async () => (await parked()).consumerDiscard,
  },
]
