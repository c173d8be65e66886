import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { Summary } from './test/support/summary.ts'

export default defineConfig({
  resolve: {
    // as tsconfig.json: the examples import the package by its name
    alias: [
      {
        find: /^fencepost$/,
        replacement: fileURLToPath(new URL('src/index.ts', import.meta.url)),
      },
      {
        // one copy for the code and for its tests
        find: /^@temporalio\/(activity|common|testing)$/,
        replacement: fileURLToPath(
          new URL('test/temporal/node_modules/@temporalio/$1', import.meta.url),
        ),
      },
      {
        find: /^fencepost\/temporal$/,
        replacement: fileURLToPath(new URL('src/temporal/index.ts', import.meta.url)),
      },
    ],
  },
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['**/node_modules/**'],
    globalSetup: ['test/support/setup.ts'],
    reporters: ['default', new Summary()],
    // a poll ends as soon as it sees what it waits for; on a busy machine that may take a while
    expect: { poll: { timeout: 20_000, interval: 50 } },
    // On a shared machine a test of processes and kills may be starved once; the summary names those that were.
    retry: process.env.CI ? 1 : 0,
    // no claim: what is to be quick says so itself
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
})
