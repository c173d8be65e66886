import { expect, it } from 'vitest'
import { cli, type Surroundings, spawnCli } from '../cli/cli.ts'
import { moveClock, restoreClock } from '../support/clock.ts'
import { enqueue, freshType, maintain } from '../support/engine.ts'
import { publishing } from '../support/outbox.ts'
import { ownDatabase } from '../support/server.ts'
import { Endpoint } from './endpoint.ts'

const database = ownDatabase()

const run = (args: readonly string[], surroundings: Surroundings = {}) =>
  cli(args, { ...surroundings, env: { DATABASE_URL: database.url } })

it('makes, shows, changes, rotates, serves and removes a webhook', async () => {
  await using endpoint = await Endpoint.open()
  const type = await publishing(database.db, freshType())
  const made = await run(['webhook', 'create', 'billing', endpoint.url, '--types', type])
  expect(made).toMatchObject({ code: 0, out: expect.stringMatching(/^whsec_\S+\n$/) })

  let stop = (_: string) => {}
  const asked = new Promise<string>((resolve) => {
    stop = resolve
  })
  const relay = run(['relay', 'webhook', '--allow-private', '--poll', '100ms'], { asked })
  await enqueue(database.db, type)
  await expect.poll(() => endpoint.hits.length).toBe(1)
  stop('SIGTERM')
  const { code, out } = await relay
  expect(code).toBe(0)
  expect(out).toContain('"outcome":"completed"')

  expect(await run(['webhook', 'pause', 'billing', '--reason', 'they move'])).toMatchObject({
    code: 0,
    out: 'webhook billing is paused\n',
  })
  const change = ['--endpoint', `${endpoint.url}/moved`, '--max-attempts', '3', '--timeout', '9s']
  expect((await run(['webhook', 'configure', 'billing', ...change])).out).toMatch(/moved\n/)
  const list = await run(['webhook', 'list'])
  expect(list.out).toMatch(/^billing +http:\/\/127/m)
  expect(list.out).not.toContain('whsec_')
  const shown = await run(['webhook', 'get', 'billing', '--json'])
  expect(JSON.parse(shown.out)).toMatchObject({
    paused: true,
    paused_reason: 'they move',
    max_attempts: 3,
    timeout: '00:00:09',
    types: [type],
  })
  await run(['webhook', 'configure', 'billing', '--no-filter', '--timeout', '5 seconds'])
  expect((await run(['webhook', 'resume', 'billing'])).out).toBe('webhook billing goes on\n')
  const after = await run(['webhook', 'get', 'billing', '--json'])
  expect(JSON.parse(after.out)).toMatchObject({ paused: false, types: null, timeout: '00:00:05' })

  const given = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
  const rotated = await run(
    ['webhook', 'rotate', 'billing', '--secret', '-', '--keep-old', '1h', '--json'],
    {
      stdin: `${given}\n`,
    },
  )
  expect(JSON.parse(rotated.out)).toEqual({ name: 'billing', secret: given })
  expect(await run(['webhook', 'drop', 'billing'])).toMatchObject({
    code: 0,
    out: 'webhook billing is gone\n',
  })
  expect(await run(['webhook', 'drop', 'billing'])).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringContaining('error JE002: webhook billing does not exist'),
  })
  expect((await run(['webhook', 'list'])).out).toBe('No webhooks.\n')
})

it('delivers again, with the same id, what a relay had under way when it was killed', async () => {
  await using endpoint = await Endpoint.open(() => {}) // never answers the first
  const type = await publishing(database.db, freshType())
  await run(['webhook', 'create', 'killed', endpoint.url, '--types', type])
  const start = () =>
    spawnCli(['relay', 'webhook', '--allow-private', '--poll', '100ms'], {
      DATABASE_URL: database.url,
    })
  const first = start()
  await enqueue(database.db, type)
  await expect.poll(() => endpoint.hits.length).toBe(1)
  first.child.kill('SIGKILL')
  await first.ended

  const second = start()
  await second.says(/webhooks are served/)
  // The ttl of the worker that is gone: silence is looked at twice.
  for (const _ of ['suspected', 'lost']) {
    await moveClock(database.db, '1 minute')
    await maintain(database.db)
  }
  await expect.poll(() => endpoint.hits.length).toBe(2)
  const [before, after] = endpoint.hits.map(({ headers }) => headers['webhook-id'])
  expect(after).toBe(before)
  second.child.kill('SIGTERM')
  expect(await second.ended).toMatchObject({ code: 0 })
  await restoreClock(database.db)
})

it.each([
  [['webhook', 'configure', 'x', '--no-filter', '--kinds', 'run.*'], 2, 'not both'],
  [['webhook', 'configure', 'x', '--backoff-base', 'long'], 1, 'JE003'],
  [['webhook', 'rotate', 'x', '--keep-old', 'soon'], 1, 'JE003'],
  [['relay', 'webhook', '--poll', '0'], 2, '--poll must be a duration'],
  [['relay', 'webhook', '--poll', '0ms'], 2, '--poll must be at least 10 ms'],
  [['relay', 'webhook', '--concurrency', '0'], 2, 'from 1 to 10000'],
  [['webhook', 'create', 'x', 'nowhere'], 1, 'needs a URL'],
])('%j is refused', async (args, code, message) => {
  const outcome = await run(args)
  expect(outcome.code).toBe(code)
  expect(outcome.err).toContain(message)
})
