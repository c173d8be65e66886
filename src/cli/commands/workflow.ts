import { readFile } from 'node:fs/promises'
import {
  configureWorkflow,
  getWorkflow,
  getWorkflowVersion,
  publishWorkflow,
  workflowDiff,
  workflows,
  workflowVersions,
} from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'
import { UsageError, wholeNumber } from '../arguments.ts'
import type { Command, Invocation } from '../command.ts'
import { withDatabase } from '../database.ts'
import { record, table } from '../table.ts'

/** How many versions `workflow get` shows. */
const NEWEST = 20

export const workflowPublish: Command = {
  usage: '<name> <file.json>',
  help: `Publishes the definition in a file, - for standard input, and prints its version: the next one, or the one that has an
equal definition. A published version never changes.

  fencepost workflow publish order.fulfil order.json`,
  takes: [2, 2],
  async run(invocation) {
    const [name = ''] = invocation.positionals
    const definition = await definitionOf(invocation)
    const version = await withDatabase(invocation, (db) => publishWorkflow(db, name, definition))
    invocation.answer({ workflow: name, version }, () => String(version))
    return undefined
  },
}

async function definitionOf(invocation: Invocation): Promise<unknown> {
  const [, file = ''] = invocation.positionals
  if (file === '-') return invocation.parseJson('the definition', '-')
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${file} cannot be read: ${error.code}`)
  })
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new UsageError(`${file} is not JSON: ${(error as Error).message}`)
  }
}

export const workflowList: Command = {
  help: 'By name, each with its latest version.',
  options: {
    limit: { value: '<n>', help: 'How many. Default 50.' },
    after: { value: '<name>', help: 'Go on after this workflow.' },
  },
  async run(invocation) {
    const limit = invocation.number('limit')
    const rows = await withDatabase(invocation, (db) =>
      workflows(db, {
        after: invocation.text('after'),
        ...(limit === undefined ? {} : { limit }),
      }),
    )
    invocation.answer(rows, () =>
      rows.length === 0
        ? 'No workflows: publish one with fencepost workflow publish.'
        : table(rows as never, invocation.terminal),
    )
    return undefined
  },
}

export const workflowGet: Command = {
  usage: '<name>',
  help: `Shows the workflow, its newest ${NEWEST} versions and the definition of the latest. With --json, that definition is as it
was published.`,
  takes: [1, 1],
  options: { version: { value: '<n>', help: 'The definition of this version.' } },
  async run(invocation) {
    const [name = ''] = invocation.positionals
    const version = invocation.number('version')
    const found = await withDatabase(invocation, async (db) => {
      const workflow = await getWorkflow(db, name)
      if (workflow === undefined) throw missing(`workflow ${name}`)
      const published = await getWorkflowVersion(db, name, version)
      if (published === undefined) throw missing(`version ${version} of ${name}`)
      const versions = await workflowVersions(db, name, { limit: NEWEST })
      return { ...workflow, version: published.version, versions, definition: published.definition }
    })
    const { versions, definition, version: shown, ...workflow } = found
    const { terminal } = invocation
    invocation.answer(found, () =>
      [
        record(workflow, terminal),
        `\n${terminal.style.bold('versions')}`,
        table(versions as never, terminal, ['version', 'tasks', 'created_at', 'created_by']),
        `\n${terminal.style.bold(`definition of version ${shown}`)}`,
        JSON.stringify(definition, null, 2),
      ].join('\n'),
    )
    return undefined
  },
}

export const workflowConfigure: Command = {
  usage: '<name>',
  help: `For all its versions. A run that failed is kept until it is retried or cancelled.

  fencepost workflow configure order.fulfil --keep-finished 30d`,
  takes: [1, 1],
  options: {
    'keep-finished': {
      value: '<duration>',
      help: 'How long finished runs are kept. At first 7d.',
    },
  },
  async run(invocation) {
    const [name = ''] = invocation.positionals
    const keep = invocation.text('keep-finished')
    if (keep === undefined) {
      throw new UsageError('what should be set?', 'For example --keep-finished 30d.')
    }
    const workflow = await withDatabase(invocation, async (db) => {
      await configureWorkflow(db, name, { keep_finished: keep })
      return getWorkflow(db, name)
    })
    invocation.answer(workflow, () => record({ ...workflow }, invocation.terminal))
    return undefined
  },
}

export const workflowDiffCommand: Command = {
  usage: '<name> <from> <to>',
  help: 'What differs between two versions, by task and key.',
  takes: [3, 3],
  async run(invocation) {
    const [name = '', from = '', to = ''] = invocation.positionals
    const rows = await withDatabase(invocation, (db) =>
      workflowDiff(db, name, wholeNumber('<from>', from), wholeNumber('<to>', to)),
    )
    invocation.answer(rows, () =>
      rows.length === 0
        ? 'They are equal.'
        : table(rows as never, invocation.terminal, ['task', 'key', 'before', 'after']),
    )
    return undefined
  },
}

function missing(what: string): FencepostError {
  return new FencepostError('JE002', `${what} does not exist`, {
    hint: 'See fencepost workflow list.',
  })
}
