import { describe, expect, it } from 'vitest'
import { ownDatabase } from '../support/server.ts'
import { cli } from './cli.ts'

const database = ownDatabase()

/** Commands that take a name or an id, but for those that make what they name. */
const commands: readonly string[] = [
  'job get 7',
  'job cancel 7',
  'job retry 7',
  'job explain 7',
  'dlq replay 7',
  'dlq discard 7',
  'type get none',
  'type resume none',
  'stats --type none',
  'worker get 7',
  'worker drain 7',
  'workflow get none',
  'workflow configure none --keep-finished 1d',
  'workflow diff none 1 2',
  'run start none',
  'run get 7',
  'run watch 7',
  'run explain 7 none',
  'run pause 7',
  'run resume 7',
  'run cancel 7',
  'run retry 7',
  'run restart 7',
  'run signal 7 go',
  'run migrate 7 2',
  'approval approve 7',
  'approval reject 7',
  'task replay 7',
  'task gate 7',
  'consumer get none',
  'consumer seek none now',
  'consumer drop none',
  'consumer read none',
  'consumer ack none 1.0',
  'consumer park none 1.0 --reason x',
  'consumer parked none',
  'consumer replay none --all',
  'consumer discard none --all',
  'webhook get none',
  'webhook configure none --timeout 9s',
  'webhook pause none',
  'webhook resume none',
  'webhook rotate none',
  'webhook drop none',
]

describe('what does not exist is JE002 and ends with 1', () => {
  it.each(commands)('%s', async (line) => {
    const outcome = await cli(line.split(' '), { env: { DATABASE_URL: database.url } })
    expect(outcome).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringMatching(/^error JE002: /),
    })
  })
})

describe('a list of nothing is empty and ends with 0', () => {
  it.each([
    'job list --type none',
    'dlq list --type none',
    'type list',
    'worker list',
    'workflow list',
    'run list --workflow none',
    'approval list --run-id 7',
    'events --types none',
    'consumer list',
    'webhook list',
  ])('%s', async (line) => {
    const args = [...line.split(' '), '--json']
    const { code, out, err } = await cli(args, { env: { DATABASE_URL: database.url } })
    expect({ code, out, err }).toEqual({
      code: 0,
      out: expect.stringMatching(line.startsWith('events') ? /^$/ : /^\[\]\n$/),
      err: '',
    })
  })
})

describe('a duration is written the same whoever reads it', () => {
  it.each(['500ms', '30s', '1.5h', '1h 30m', '7d'])('%s', async (text) => {
    const args = ['type', 'configure', 'patient', '--backoff-cap', text]
    expect(await cli(args, { env: { DATABASE_URL: database.url } })).toMatchObject({ code: 0 })
  })
})
