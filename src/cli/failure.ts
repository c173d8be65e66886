import { type ConnectionLostError, isConnectionError } from '../database/database.ts'
import { asRefusal } from '../refusal.ts'
import { UsageError } from './arguments.ts'
import type { Terminal } from './terminal.ts'

/** Exit codes: 0 it was done, 1 it failed or was refused, 2 the command line was wrong. */
export const exitCodes = { done: 0, failed: 1, usage: 2 } as const

/** What is told of an error. */
interface Told {
  readonly code?: string
  readonly message: string
  readonly detail?: string
  readonly hint?: string
}

/** Tells an error, without its stack, and gives the exit code. */
export function tell(error: unknown, terminal: Terminal, json: boolean): number {
  const told = toldOf(asRefusal(error))
  if (json) {
    terminal.note(JSON.stringify({ error: told }))
  } else {
    const { style } = terminal
    const code = told.code === undefined ? '' : ` ${told.code}`
    terminal.note(`${style.red(`error${code}:`)} ${told.message}`)
    if (told.detail !== undefined) terminal.note(`  ${told.detail}`)
    if (told.hint !== undefined) terminal.note(`  ${style.dim(told.hint)}`)
  }
  return error instanceof UsageError ? exitCodes.usage : exitCodes.failed
}

function toldOf(error: unknown): Told {
  if (!(error instanceof Error)) return { message: String(error) }
  const { code, detail, hint } = error as Error & Partial<ConnectionLostError> & { detail?: string }
  const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined)
  const unreachable = isConnectionError(error) || UNREACHABLE.test(text(code) ?? '')
  const more = hint || (unreachable ? NO_ANSWER : undefined)
  return {
    ...(text(code) === undefined ? {} : { code: text(code) as string }),
    message: error.message || error.name,
    ...(text(detail) === undefined ? {} : { detail: text(detail) as string }),
    ...(text(more) === undefined ? {} : { hint: text(more) as string }),
  }
}

/** What the system says of a host that cannot be reached. */
const UNREACHABLE =
  /^E(?:CONNREFUSED|CONNRESET|TIMEDOUT|HOSTUNREACH|NETUNREACH|NOTFOUND|AI_AGAIN|PIPE)$/

const NO_ANSWER =
  'Is the server running, and is the address right? It comes from --url, DATABASE_URL, or fencepost dev.'
