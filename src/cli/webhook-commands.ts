import type { CommandEntry } from './commands.ts'

const webhook = () => import('./commands/webhook.ts')

/** The commands of webhooks, in the order of the help. */
export const webhookCommands: readonly CommandEntry[] = [
  {
    name: 'relay webhook',
    summary: 'Deliver events to webhooks',
    load: async () => (await import('./commands/relay-webhook.ts')).relayWebhook,
  },
  {
    name: 'webhook create',
    summary: 'Make an endpoint that gets events',
    load: async () => (await webhook()).webhookCreate,
  },
  {
    name: 'webhook list',
    summary: 'List webhooks, and how they stand',
    load: async () => (await webhook()).webhookList,
  },
  {
    name: 'webhook get',
    summary: 'Show a webhook',
    load: async () => (await webhook()).webhookGet,
  },
  {
    name: 'webhook configure',
    summary: 'Change a webhook',
    load: async () => (await webhook()).webhookConfigure,
  },
  {
    name: 'webhook pause',
    summary: 'Send nothing to a webhook',
    load: async () => (await webhook()).webhookPause,
  },
  {
    name: 'webhook resume',
    summary: 'Let a webhook go on',
    load: async () => (await webhook()).webhookResume,
  },
  {
    name: 'webhook rotate',
    summary: 'Give a webhook a new secret',
    load: async () => (await webhook()).webhookRotate,
  },
  {
    name: 'webhook drop',
    summary: 'Remove a webhook',
    load: async () => (await webhook()).webhookDrop,
  },
]
