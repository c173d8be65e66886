import { spawnSync } from 'node:child_process'
import type { TestContext } from 'vitest'

/** A program that some tests need and that not every machine has: how it is tried, and found. */
const TOOLS = {
  python: {
    commands: ['/usr/bin/python3', 'python3'],
    args: ['-c', 'import psycopg2'],
    needs: 'python3 with psycopg2',
  },
  psql: { commands: ['psql'], args: ['--version'], needs: 'psql' },
  bash: { commands: ['bash'], args: ['--version'], needs: 'bash' },
  timeout: { commands: ['timeout'], args: ['--version'], needs: 'timeout, of the GNU coreutils' },
  redis: { commands: ['redis-server'], args: ['--version'], needs: 'redis-server' },
  openssl: { commands: ['openssl'], args: ['version'], needs: 'openssl' },
  pgbouncer: {
    commands: ['pgbouncer', '/usr/sbin/pgbouncer'],
    args: ['--version'],
    needs: 'pgbouncer',
  },
  chromium: {
    commands: ['chromium', 'google-chrome', 'chromium-browser'],
    args: ['--version'],
    needs: 'Chromium',
  },
} as const

/** The name of a tool that a test may need. */
export type Tool = keyof typeof TOOLS

/**
 * The command of a tool. Where the tool is missing the test is skipped, with the reason, unless
 * `FENCEPOST_REQUIRE` (names with commas between) lists it: then the test fails. Call it in a test or
 * in `beforeEach`.
 */
export function required(name: Tool, context: Pick<TestContext, 'skip'>): string {
  const command = find(name)
  if (command !== undefined) return command
  const { needs } = TOOLS[name]
  if (isRequired(name)) throw new Error(`${needs} is required (FENCEPOST_REQUIRE) and missing`)
  return context.skip(`${needs} is not installed`)
}

/** True when `FENCEPOST_REQUIRE` turns the skips for this tool into failures. */
export function isRequired(name: string): boolean {
  return (process.env.FENCEPOST_REQUIRE ?? '').split(',').includes(name)
}

const found = new Map<Tool, string | undefined>()

function find(name: Tool): string | undefined {
  if (!found.has(name)) {
    const { commands, args } = TOOLS[name]
    found.set(
      name,
      commands.find((command) => spawnSync(command, args).status === 0),
    )
  }
  return found.get(name)
}
