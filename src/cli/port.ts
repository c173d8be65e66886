import { DEFAULT_PORT } from '../api/server.ts'
import { UsageError } from './arguments.ts'
import type { Invocation } from './command.ts'

/**
 * The port of the API: --port, else PORT, else the default.
 *
 * @throws UsageError when it is none
 */
export function portOf(invocation: Invocation): number {
  const text = invocation.text('port') ?? invocation.terminal.env.PORT
  if (text === undefined || text === '') return DEFAULT_PORT
  const port = Number(text)
  if (/^\d+$/.test(text) && port <= 65_535) return port
  throw new UsageError(`${JSON.stringify(text)} is not a port`, 'A whole number from 0 to 65535.')
}
