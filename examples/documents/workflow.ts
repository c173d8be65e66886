// Documents in a directory: what each has is extracted, then they are classified and indexed side by side,
// and at the end counted. A file that cannot be read fails the run; mended, `run retry` does that file alone.

import { defineWorkflow } from 'fencepost'
import { z } from 'zod'
import * as jobs from './jobs.ts'

/** Everything that a worker has to run. */
export const work = Object.values(jobs)

export const workflow = defineWorkflow('documents', {
  input: z.object({ directory: z.string() }),
})
  .task('list', { type: jobs.list, input: '$.input' })
  .map('extract', {
    type: jobs.extractFile,
    after: ['list'],
    over: '$.tasks.list',
    maxParallel: 8,
    input: { directory: '$.input.directory', file: '$.item' },
  })
  .map('classify', {
    type: jobs.classifyFile,
    after: ['extract'],
    over: '$.tasks.extract',
    input: '$.item',
  })
  .map('index', {
    type: jobs.indexFile,
    after: ['extract'],
    over: '$.tasks.extract',
    maxParallel: 8,
    input: { file: '$.item.file' },
  })
  .task('summarise', {
    type: jobs.summarise,
    after: ['classify', 'index'],
    input: { outlines: '$.tasks.extract', kinds: '$.tasks.classify' },
  })
