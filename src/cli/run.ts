import { suggestion } from '../suggest.ts'
import { version } from '../version.ts'
import { commonOptions, parseArguments, UsageError } from './arguments.ts'
import { type Command, Invocation } from './command.ts'
import { type CommandEntry, commands } from './commands.ts'
import { exitCodes, tell } from './failure.ts'
import { commandHelp, commandsOf, nounHelp, overview } from './help.ts'
import type { Terminal } from './terminal.ts'

/** Runs one command line and gives the exit code. */
export async function runCli(args: readonly string[], terminal: Terminal): Promise<number> {
  try {
    return await dispatch(args, terminal)
  } catch (error) {
    return tell(error, terminal, args.includes('--json'))
  }
}

async function dispatch(args: readonly string[], terminal: Terminal): Promise<number> {
  const [first = '', second = ''] = args
  if (['', 'help', '--help', '-h'].includes(first)) return help(args.slice(1), terminal)
  if (['version', '--version', '-v'].includes(first)) {
    terminal.write(`${version}\n`)
    return exitCodes.done
  }
  if (isHelp(second) && isNoun(first)) return help([first], terminal)
  const entry = find(first, second)
  const rest = args.slice(entry.name.split(' ').length)
  const command = await entry.load()
  if (rest.some(isHelp)) {
    terminal.write(commandHelp(entry, command, terminal))
    return exitCodes.done
  }
  const code = await command.run(invocationOf(entry, command, rest, terminal))
  return code ?? exitCodes.done
}

function invocationOf(
  entry: CommandEntry,
  command: Command,
  args: readonly string[],
  terminal: Terminal,
): Invocation {
  const { positionals, options } = parseArguments(args, { ...commonOptions, ...command.options })
  const [least, most] = command.takes ?? [0, 0]
  if (positionals.length < least || positionals.length > most) {
    const extra = positionals[most]
    throw new UsageError(
      extra === undefined
        ? 'an argument is missing'
        : `unexpected argument ${JSON.stringify(extra)}`,
      `Usage: fencepost ${entry.name} ${command.usage ?? ''}`.trimEnd(),
    )
  }
  return new Invocation(terminal, positionals, options)
}

function isHelp(word: string): boolean {
  return word === '--help' || word === '-h'
}

/** True for a word that is no command, and begins several. */
function isNoun(word: string): boolean {
  return commandsOf(word).length > 0 && !commands.some(({ name }) => name === word)
}

function find(first: string, second: string): CommandEntry {
  const two = commands.find(({ name }) => name === `${first} ${second}`)
  const one = commands.find(({ name }) => name === first)
  const found = two ?? one
  if (found !== undefined) return found
  const verbs = commandsOf(first).map(({ name }) => name.slice(first.length + 1))
  if (verbs.length > 0) {
    throw second === '' || second.startsWith('-')
      ? new UsageError(
          `${first} needs a verb`,
          `Usage: fencepost ${first} <verb>, which is one of ${verbs.join(', ')}.`,
        )
      : new UsageError(`unknown command ${first} ${second}`, suggestion(second, verbs))
  }
  const words = [...new Set(commands.map(({ name }) => name.split(' ')[0] ?? ''))]
  throw new UsageError(`unknown command ${first}`, suggestion(first, [...words, 'help', 'version']))
}

async function help(words: readonly string[], terminal: Terminal): Promise<number> {
  const [first = '', second = ''] = words
  if (first === '' || first.startsWith('-')) {
    terminal.write(overview(terminal))
    return exitCodes.done
  }
  if ((second === '' || isHelp(second)) && isNoun(first)) {
    terminal.write(nounHelp(first, terminal))
    return exitCodes.done
  }
  const entry = find(first, second)
  terminal.write(commandHelp(entry, await entry.load(), terminal))
  return exitCodes.done
}
