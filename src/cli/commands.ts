import type { Command } from './command.ts'
import { consumerCommands } from './consumer-commands.ts'
import { fleetCommands } from './fleet-commands.ts'
import { webhookCommands } from './webhook-commands.ts'
import { workflowCommands } from './workflow-commands.ts'

/** A command's name, what it does in a line, and the command itself, loaded when it is called. */
export interface CommandEntry {
  readonly name: string
  readonly summary: string
  load(): Promise<Command>
}

const job = () => import('./commands/job.ts')
const dlq = () => import('./commands/dlq.ts')

/** All commands, in the order of the help. */
export const commands: readonly CommandEntry[] = [
  {
    name: 'dev',
    summary: 'Start everything here: PostgreSQL, schema, API, a worker on real data',
    load: async () => (await import('./commands/dev.ts')).dev,
  },
  {
    name: 'migrate',
    summary: 'Bring the schema of a database up to this version',
    load: async () => (await import('./commands/migrate.ts')).migrateCommand,
  },
  {
    name: 'serve',
    summary: 'Serve the HTTP API',
    load: async () => (await import('./commands/serve.ts')).serve,
  },
  {
    name: 'work',
    summary: 'Run a worker for the jobs that a module defines',
    load: async () => (await import('./commands/work.ts')).work,
  },
  { name: 'job enqueue', summary: 'Enqueue a job', load: async () => (await job()).jobEnqueue },
  { name: 'job get', summary: 'Show a job', load: async () => (await job()).jobGet },
  {
    name: 'job list',
    summary: 'List jobs',
    load: async () => (await import('./commands/job-list.ts')).jobList,
  },
  { name: 'job cancel', summary: 'Cancel a job', load: async () => (await job()).jobCancel },
  {
    name: 'job retry',
    summary: 'Return a dead letter to work',
    load: async () => (await job()).jobRetry,
  },
  {
    name: 'job explain',
    summary: 'Say why a job is not running',
    load: async () => (await import('./commands/job-explain.ts')).jobExplain,
  },
  { name: 'dlq list', summary: 'List dead letters', load: async () => (await dlq()).dlqList },
  {
    name: 'dlq replay',
    summary: 'Return dead letters to work: one, or all that match',
    load: async () => (await dlq()).dlqReplay,
  },
  {
    name: 'dlq discard',
    summary: 'Give a dead letter up',
    load: async () => (await dlq()).dlqDiscard,
  },
  ...fleetCommands,
  ...workflowCommands,
  ...consumerCommands,
  {
    name: 'relay kafka',
    summary: 'Publish the events of a consumer to Kafka',
    load: async () => (await import('./commands/relay-kafka.ts')).relayKafka,
  },
  ...webhookCommands,
  {
    name: 'stats',
    summary: 'How each type stands; a live table in a terminal',
    load: async () => (await import('./commands/stats.ts')).statsCommand,
  },
  {
    name: 'doctor',
    summary: 'Look for what is wrong, and say what mends it',
    load: async () => (await import('./commands/doctor.ts')).doctorCommand,
  },
  {
    name: 'sql',
    summary: 'Run an SQL statement, for those without psql',
    load: async () => (await import('./commands/sql.ts')).sql,
  },
]
