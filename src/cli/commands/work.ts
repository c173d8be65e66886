import { existsSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { Fencepost } from '../../client/fencepost.ts'
import { JobDefinition } from '../../definitions/define-job.ts'
import { suggestion } from '../../suggest.ts'
import { createLogger } from '../../telemetry/logger.ts'
import { UsageError } from '../arguments.ts'
import type { Command, Invocation } from '../command.ts'
import { databaseUrl } from '../database.ts'

export const work: Command = {
  usage: '<module>',
  help: `Works on every job that the module exports: what defineJob() made, alone or in arrays. Logs one JSON line an
attempt to standard output. SIGTERM or Ctrl-C lets handlers finish and gives back what has not begun.

  fencepost work ./jobs.js --concurrency 50`,
  takes: [1, 1],
  options: {
    concurrency: { value: '<n>', help: 'How many handlers run at a time. Default 10.' },
    name: { value: '<name>', help: 'What lists and logs call it. Default worker.' },
    slot: { value: '<n>', help: 'Tells processes of one name on one host apart.' },
    ttl: { value: '<duration>', help: 'How long it may be silent. Default 30s.' },
    type: { value: '<type>', help: 'Only this one of the types that the module exports.' },
    'stop-deadline': { value: '<duration>', help: 'How long handlers may finish. Default 30s.' },
  },
  async run(invocation) {
    const jobs = chosen(invocation, await definitionsOf(invocation.positionals[0] ?? ''))
    await using engine = new Fencepost({
      url: databaseUrl(invocation),
      applicationName: 'fencepost work',
    })
    const worker = engine.worker(jobs, {
      logger: createLogger({ destination: invocation.terminal }),
      concurrency: invocation.number('concurrency'),
      name: invocation.text('name'),
      slot: invocation.number('slot'),
      ttl: invocation.text('ttl'),
      stopDeadline: invocation.text('stop-deadline'),
    })
    const ending = Promise.race([invocation.terminal.untilAsked(), untilAlone(), worker.stopped])
    await worker.start()
    await ending
    await worker.stop()
    return undefined
  },
}

/** Resolves when the process that started us through a channel is gone. */
function untilAlone(): Promise<void> {
  return new Promise((resolve) => {
    if (process.connected) process.once('disconnect', resolve)
  })
}

/**
 * The definitions that a module exports.
 *
 * @throws UsageError when it cannot be found or exports none
 */
async function definitionsOf(module: string): Promise<JobDefinition[]> {
  const file = path.resolve(module)
  if (/\.[mc]?ts$/.test(module) && !canStripTypes()) {
    throw new UsageError(
      `this Node cannot load ${module}`,
      'Compile it, or run the worker with a loader: node --import tsx node_modules/.bin/fencepost work …',
    )
  }
  const isFile = existsSync(file)
  if (!isFile && /^\.|^\/|\.[cm]?js$/.test(module))
    throw new UsageError(`there is no module ${file}`)
  const exported = (await import(isFile ? pathToFileURL(file).href : module)) as object
  const found = Object.values(exported).flat().filter(isJob)
  const jobs = [...new Set(found)].filter((job) => job.canRun)
  if (jobs.length > 0) return jobs
  throw new UsageError(
    `${module} exports no job that can run`,
    'Export what defineJob({ type, run }) made, alone or in an array.',
  )
}

function isJob(value: unknown): value is JobDefinition {
  return value instanceof JobDefinition
}

/** Node 22.18 and newer load TypeScript that needs no more than its types removed. */
function canStripTypes(): boolean {
  return Boolean((process.features as { readonly typescript?: unknown }).typescript)
}

function chosen(invocation: Invocation, jobs: readonly JobDefinition[]): readonly JobDefinition[] {
  const type = invocation.text('type')
  if (type === undefined) return jobs
  const found = jobs.filter((job) => job.type === type)
  if (found.length > 0) return found
  throw new UsageError(
    `the module exports no job ${type}`,
    suggestion(
      type,
      jobs.map((job) => job.type),
    ),
  )
}
