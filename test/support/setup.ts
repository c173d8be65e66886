import type { TestProject } from 'vitest/node'
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

let server: TestServer | undefined
let gathered: Gathered | undefined

/** Before the first test file: one server for all, with a template of a migrated database. */
export async function setup(project: TestProject): Promise<void> {
  server = await startTestServer()
  gathered = new Gathered()
  await createTemplate(server.url)
  project.provide('serverUrl', server.url)
  project.provide('gathered', gathered.directory)
}

/** After the last one. */
export async function teardown(): Promise<void> {
  await server?.stop()
  gathered?.remove()
}
