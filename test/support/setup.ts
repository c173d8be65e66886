import type { TestProject } from 'vitest/node'
import { build, stale } from '../../scripts/build.mjs'
import { untested } from './completeness.ts'
import { Gathered } from './gathered.ts'
import { startTestServer, type TestServer } from './launch.ts'
import { createTemplate } from './template.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The superuser's address of the suite's server, at its database `postgres`. */
    serverUrl: string
    /** The directory where the test files leave what they called, raised and answered. */
    gathered: string
  }
}

let suite: TestProject | undefined
let server: TestServer | undefined
let gathered: Gathered | undefined

/**
 * Before the first test file: a build for the tests that start processes of their own, and one
 * server for all, with a template of a migrated database.
 */
export async function setup(project: TestProject): Promise<void> {
  suite = project
  if (stale()) await build().catch((error: Error) => console.warn(error.message))
  server = await startTestServer()
  gathered = new Gathered()
  await createTemplate(server.url)
  project.provide('serverUrl', server.url)
  project.provide('gathered', gathered.directory)
}

/** After the last one: when all of them ran, whatever no test has touched fails the suite. */
export async function teardown(): Promise<void> {
  if (suite === undefined || server === undefined || gathered === undefined) return
  try {
    if (!(await ranAll(suite))) return
    const complaints = await untested(gathered, server.url, await server.log())
    for (const complaint of complaints) process.stderr.write(`${complaint}\n`)
    if (complaints.length > 0) process.exitCode = 1
  } finally {
    await server.stop()
    gathered.remove()
  }
}

async function ranAll(project: TestProject): Promise<boolean> {
  if (project.config.testNamePattern !== undefined) return false
  const { testFiles } = await project.globTestFiles()
  const ran = new Set(project.vitest.state.getPaths())
  return testFiles.every((file) => ran.has(file))
}
