import { defineConfig } from 'vitest/config'
import { Summary } from './test/support/summary.ts'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['**/node_modules/**'],
    globalSetup: ['test/support/setup.ts'],
    reporters: ['default', new Summary()],
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
