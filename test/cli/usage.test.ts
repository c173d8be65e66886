import { describe, expect, it } from 'vitest'
import { commonOptions } from '../../src/cli/arguments.ts'
import { commands } from '../../src/cli/commands.ts'
import { version } from '../../src/version.ts'
import { ownDatabase } from '../support/server.ts'
import { cli, spawnCli } from './cli.ts'

describe('help', () => {
  it.each([[[]], [['help']], [['--help']], [['-h']]])('%j lists every command', async (args) => {
    const { code, out } = await cli(args)
    expect(code).toBe(0)
    for (const { name, summary } of commands) {
      expect(out).toContain(name)
      expect(out).toContain(summary)
    }
  })

  it.each(commands.map(({ name }) => [name]))('of %s tells its options', async (name) => {
    const byOption = await cli([...name.split(' '), '--help'])
    const byWord = await cli(['help', ...name.split(' ')])
    expect(byOption).toEqual(byWord)
    expect(byOption.code).toBe(0)
    expect(byOption.out).toContain(`fencepost ${name}`)
    expect(byOption.out).toContain('--json')
  })

  const nouns = new Set(
    commands.filter(({ name }) => name.includes(' ')).map(({ name }) => name.split(' ')[0] ?? ''),
  )
  it.each([...nouns].map((noun) => [noun]))('of %s tells its verbs', async (noun) => {
    const byOption = await cli([noun, '--help'])
    expect(byOption).toMatchObject({ code: 0, err: '' })
    for (const { name, summary } of commands) {
      if (!name.startsWith(`${noun} `)) continue
      expect(byOption.out).toContain(name)
      expect(byOption.out).toContain(summary)
    }
    expect(await cli([noun, '-h'])).toEqual(byOption)
    expect(await cli(['help', noun])).toEqual(byOption)
  })

  it('an option of one name takes the same everywhere, and none hides one that all commands have', async () => {
    const takes = new Map<string, Set<string>>()
    for (const { load } of commands) {
      const { options = {} } = await load()
      for (const [name, { value = '' }] of Object.entries(options)) {
        takes.set(name, (takes.get(name) ?? new Set()).add(value))
      }
    }
    for (const name of Object.keys(commonOptions)) expect([...takes.keys()]).not.toContain(name)
    takes.delete('after') // lists go on after what they list
    for (const [name, values] of takes)
      expect({ name, values: [...values] }).toMatchObject({ values: { length: 1 } })
  })

  it.each([['version'], ['--version'], ['-v']])('%s tells the version', async (word) => {
    expect(await cli([word])).toEqual({ code: 0, out: `${version}\n`, err: '' })
  })
})

describe('a command line that is wrong ends with 2 and says what was probably meant', () => {
  it.each([
    [['jbo', 'list'], 'unknown command jbo', 'Did you mean job?'],
    [['statz'], 'unknown command statz', 'Did you mean stats?'],
    [['job', 'lst'], 'unknown command job lst', 'Did you mean list?'],
    [['job'], 'job needs a verb', 'Usage: fencepost job <verb>, which is one of enqueue, get'],
    [['nothing', '--help'], 'unknown command nothing', 'Known:'],
    [['help', 'nothing'], 'unknown command nothing', 'Known:'],
    [['job', 'list', '--statsu', 'x'], 'unknown option --statsu', 'Did you mean --status?'],
    [['job', 'list', '--status'], '--status needs a value', ''],
    [['migrate', '--dry-run=yes'], '--dry-run takes no value', ''],
    [['job', 'get'], 'an argument is missing', 'Usage: fencepost job get <id>'],
    [['job', 'get', '1', '2'], 'unexpected argument "2"', 'Usage:'],
    [['job', 'get', 'seven'], 'the job must be a whole number', 'received "seven"'],
    [['job', 'enqueue', 'x', '{"a"'], 'the payload is not JSON', 'single quotes'],
    [['job', 'enqueue', 'x', '--priority', 'high'], '--priority must be a whole number', 'high'],
    [['job', 'enqueue', 'x', '--headers', '[]'], '--headers must be a JSON object', ''],
    [['dlq', 'replay'], 'which ones?', '--all'],
    [['type', 'configure', 'x'], 'what should be set?', '--max-attempts'],
    [['workflow', 'configure', 'x'], 'what should be set?', '--keep-finished'],
    [['webhook', 'configure', 'x'], 'what should be set?', '--max-attempts'],
    [['dlq', 'replay', '1', '--all'], 'give ids or a filter, not both', ''],
    [['sql'], 'give a statement or --file', 'select'],
    [['sql', '--file', '/nonexistent.sql'], 'cannot be read: ENOENT', ''],
    [['serve', '--port', '99999'], '"99999" is not a port', ''],
    [['job', 'list'], 'no database', 'DATABASE_URL='],
  ])('%j', async (args, message, hint) => {
    const url = message === 'no database' ? {} : { DATABASE_URL: 'postgresql://127.0.0.1:1/none' }
    const { code, out, err } = await cli(args, { env: url })
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(message)
    expect(err).toContain(hint)
    expect(err).not.toMatch(/\n\s+at /)
  })
})

describe('a database that is not there ends with 1, in time, without a stack', () => {
  const dead = { env: { DATABASE_URL: 'postgresql://nobody:secret@127.0.0.1:1/none' } }

  it.each([
    [['job', 'enqueue', 'x']],
    [['job', 'list']],
    [['job', 'get', '1']],
    [['job', 'cancel', '1']],
    [['job', 'retry', '1']],
    [['job', 'explain', '1']],
    [['dlq', 'list']],
    [['dlq', 'replay', '--all']],
    [['dlq', 'discard', '1']],
    [['stats']],
    [['doctor']],
    [['sql', 'select 1']],
    [['migrate']],
    [['migrate', '--dry-run']],
    [['migrate', '--sql']],
  ])('%j', { timeout: 10_000 }, async (args) => {
    const { code, out, err } = await cli(args, dead)
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toMatch(/^error ECONNREFUSED: .*127\.0\.0\.1:1/)
    expect(err).toContain('DATABASE_URL')
    expect(err).not.toContain('secret')
    expect(err).not.toMatch(/\n\s+at /)
  })

  it('as JSON when that is wanted', async () => {
    const { code, err } = await cli(['job', 'list', '--json'], dead)
    expect(code).toBe(1)
    expect(JSON.parse(err).error).toMatchObject({ code: 'ECONNREFUSED', hint: expect.any(String) })
  })

  it('and an address that cannot be read is an error of its own', async () => {
    const { code, err } = await cli(['stats', '--url', 'mysql://x'])
    expect(code).toBe(1)
    expect(err).toContain('JE003')
  })
})

describe('as a process', () => {
  const database = ownDatabase()

  it('ends with the code of what happened', async () => {
    expect(await spawnCli(['version']).ended).toMatchObject({
      code: 0,
      out: `${version}\n`,
      err: '',
    })
    expect(await spawnCli(['nothing']).ended).toMatchObject({ code: 2, out: '' })
    const env = { DATABASE_URL: database.url }
    expect(await spawnCli(['job', 'get', '7'], env).ended).toMatchObject({ code: 1, out: '' })
  })

  it('ends in peace when nobody reads on', async () => {
    const run = spawnCli(['sql', 'select generate_series(1, 200000) as n'], {
      DATABASE_URL: database.url,
    })
    run.child.stdout.once('data', () => run.child.stdout.destroy())
    expect(await run.ended).toMatchObject({ code: 0, err: '' })
  })
})
