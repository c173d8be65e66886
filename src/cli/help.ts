import { version } from '../version.ts'
import { commonOptions } from './arguments.ts'
import type { Command } from './command.ts'
import { type CommandEntry, commands } from './commands.ts'
import type { Terminal } from './terminal.ts'

/** What `fencepost` says of itself. */
export function overview({ style }: Terminal): string {
  return `${style.bold('fencepost')} ${version}: durable jobs and workflows inside PostgreSQL

${listed(commands, style)}

  fencepost <command> --help says more of one. The database is --url, else DATABASE_URL, else that of
  a running fencepost dev. --json writes JSON. Exit codes: 0 done, 1 failed or refused, 2 wrong usage.
  A <duration> is 500ms, 30s, 1h 30m or 7d, a <time> 2020-01-31T12:00:00Z. Lists, as <kind,…>, have commas.
`
}

/** What a word says of itself that several commands begin with. */
export function nounHelp(noun: string, { style }: Terminal): string {
  return `${style.bold(`fencepost ${noun}`)} <verb>

${listed(commandsOf(noun), style)}

  fencepost ${noun} <verb> --help says more of one.
`
}

/** The commands that begin with a word and go on. */
export function commandsOf(noun: string): CommandEntry[] {
  return commands.filter(({ name }) => name.startsWith(`${noun} `))
}

function listed(entries: readonly CommandEntry[], style: Terminal['style']): string {
  const widest = Math.max(...entries.map(({ name }) => name.length))
  return entries
    .map(({ name, summary }) => `  ${style.bold(name.padEnd(widest))}  ${summary}`)
    .join('\n')
}

/** What a command says of itself. */
export function commandHelp(
  { name, summary }: CommandEntry,
  { usage, help, options }: Command,
  { style }: Terminal,
): string {
  const all = Object.entries({ ...options, ...commonOptions })
  const heads = all.map(([option, { value, short }]) =>
    [short ? `-${short}, ` : '', `--${option}`, value ? ` ${value}` : ''].join(''),
  )
  const widest = Math.max(...heads.map((head) => head.length))
  const lines = all.map(
    ([, spec], index) => `  ${(heads[index] ?? '').padEnd(widest)}  ${spec.help}`,
  )
  return `${style.bold(`fencepost ${name}`)}${usage ? ` ${usage}` : ''}

${summary}.${help ? `\n${help}` : ''}

${lines.join('\n')}
`
}
