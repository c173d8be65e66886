// npm run test:containers: the tests that speak SQL, on PostgreSQL in a container. Skipped, with the reason, on a
// machine without a container engine.

import { spawnSync } from 'node:child_process'
import path from 'node:path'
import process from 'node:process'
import { getContainerRuntimeClient } from 'testcontainers'
import { root } from './includes.mjs'

try {
  await getContainerRuntimeClient()
} catch (error) {
  process.stdout.write(`Skipped: no container engine is running here (${error.message}).\n`)
  process.exit(0)
}

const vitest = path.join(root, 'node_modules/vitest/vitest.mjs')
const filters = process.argv.slice(2)
const { status } = spawnSync(
  process.execPath,
  [
    vitest,
    'run',
    ...(filters.length > 0 ? filters : ['test/sql', 'test/catalog', 'test/database/migrate']),
  ],
  { cwd: root, stdio: 'inherit', env: { ...process.env, FENCEPOST_TEST_SERVER: 'container' } },
)
process.exitCode = status ?? 1
