import { beforeEach, describe, expect, it } from 'vitest'
import { enqueueBatch } from '../../src/database/engine.ts'
import { moveClock } from '../support/clock.ts'
import { freshType } from '../support/engine.ts'
import { publishing } from '../support/outbox.ts'
import { ownDatabase } from '../support/server.ts'
import { cli, type Surroundings } from './cli.ts'

const database = ownDatabase()

const run = (args: readonly string[], more: Surroundings = {}) =>
  cli(args, { ...more, env: { DATABASE_URL: database.url, ...more.env } })

async function said(args: readonly string[], more: Surroundings = {}): Promise<string> {
  const { code, out } = await run(args, more)
  expect({ args, code }).toEqual({ args, code: 0 })
  return out
}
const json = async (...args: string[]) => JSON.parse(await said([...args, '--json']))
const lines = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))

/** A type whose enqueues are events, and a consumer of them by the same name. */
let name: string
let ids: number[]
beforeEach(async () => {
  name = await publishing(database.db, freshType())
  await said(['consumer', 'create', name, '--types', name])
  ids = await enqueueBatch(database.db, name, [{}, {}, {}])
  await moveClock(database.db, '1 second') // after which readers look anew
})
const read = async (...args: string[]) => lines(await said(['consumer', 'read', name, ...args]))

describe('consumer', () => {
  it('is made, listed, shown, moved and dropped', async () => {
    expect(await json('consumer', 'create', name, '--types', name)).toEqual({
      name,
      created: false,
    })
    const created = await said(['consumer', 'create', 'all.of.it', '--max-lag', 'none'])
    expect(created).toBe('consumer all.of.it is made\n')
    expect(await json('consumer', 'get', 'all.of.it')).toMatchObject({ max_lag: null, types: null })
    expect(await said(['consumer', 'list'])).toMatch(new RegExp(`${name} +3 +`))
    expect(await said(['consumer', 'get', name])).toMatch(/lag_events +3/)
    expect(await json('consumer', 'seek', name, 'now')).toMatchObject({ name })
    expect(await json('consumer', 'get', name)).toMatchObject({ lag_events: 0 })
    expect(await said(['consumer', 'drop', 'all.of.it'])).toBe('consumer all.of.it is gone\n')
    for (const verb of ['get', 'drop', 'parked']) {
      const { code, err } = await run(['consumer', verb, 'all.of.it'])
      expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining('JE002') })
    }
  })

  it('begins nowhere that is still to come', async () => {
    for (const args of [
      ['consumer', 'create', 'early', '--start', '2999-01-01'],
      ['consumer', 'seek', name, '2999-01-01'],
      ['webhook', 'create', 'early', 'https://example.com', '--start', '2999-01-01'],
      ['events', '--after', '2999-01-01'],
    ]) {
      const { code, err } = await run(args)
      expect({ code, err }).toEqual({
        code: 1,
        err: expect.stringMatching(/^error JE003: that time has not come yet\n {2}received '2999/),
      })
    }
    expect(await run(['consumer', 'get', 'early'])).toMatchObject({ code: 1 })
  })

  it('is read, and comes again until it is acknowledged', async () => {
    const mine = ['consumer', 'read', name, '--max', '2', '--reader', 'me']
    const { out, err } = await run(mine)
    const first = lines(out)
    expect(first).toMatchObject([{ job_id: ids[0] }, { job_id: ids[1] }])
    expect(err).toBe(`When they are done: fencepost consumer ack ${name} ${first[1].position}\n`)
    expect(lines(await said(mine))).toEqual(first)
    const ack = ['consumer', 'ack', name, first[1].position]
    expect(await said(ack)).toBe(`consumer ${name} has moved on\n`)
    expect(await json(...ack)).toMatchObject({ moved: false })
    expect(await read('--lease', '1m')).toMatchObject([{ job_id: ids[2] }])
  })

  it('is read by one at a time: who is not named is a reader of its own at each call', async () => {
    const first = await read('--lease', '10s')
    const { reader } = await json('consumer', 'get', name)
    expect(reader).toMatch(/^[^@]+@.+\/\d+\/\w+$/)
    const { code, out, err } = await run(['consumer', 'read', name])
    expect({ code, out }).toEqual({ code: 0, out: '' })
    expect(err).toMatch(/^Nothing: \S+@\S+ has the lease until \d{4}-\S+Z, or until it has ack/)
    expect(err).toContain(reader)

    await moveClock(database.db, '11 seconds')
    const second = await read()
    expect(second).toMatchObject(ids.map((id) => ({ job_id: id })))
    const late = await run(['consumer', 'ack', name, first[2].position])
    expect(late).toMatchObject({ code: 1, err: expect.stringContaining('JE001') })
    expect(await said(['consumer', 'ack', name, second[2].position])).toContain('has moved on')
    const { err: none } = await run(['consumer', 'read', name])
    expect(none).toBe('Nothing new, or a transaction is reading it.\n')
  })

  it('sets events aside, which are read again or given up', async () => {
    const [first, second] = await read('--reader', 'me')
    const refused = await run(['consumer', 'park', name, first.position])
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('JE003') })
    for (const { position } of [first, second]) {
      await said(['consumer', 'park', name, position, '--reason', 'too large'])
    }
    expect(await said(['consumer', 'parked', name])).toMatch(/too large\n.*too large/)
    expect(await json('consumer', 'parked', name, '--after', String(first.id))).toMatchObject([
      { event_id: second.id, reason: 'too large' },
    ])
    expect(await said(['consumer', 'replay', name, String(first.id)])).toBe(
      '1 event will be read again\n',
    )
    expect(await read('--reader', 'me')).toMatchObject([{ id: first.id }])
    expect(await said(['consumer', 'discard', name, '--all'])).toBe('2 events discarded\n')
    expect(await said(['consumer', 'parked', name])).toBe('No parked events.\n')
    for (const args of [[], ['7', '--all'], ['seven']]) {
      expect(await run(['consumer', 'discard', name, ...args])).toMatchObject({ code: 2 })
    }
  })
})

describe('events', () => {
  it('are JSON lines in commit order, and go on from a position', async () => {
    const { out, err } = await run(['events', '--types', name, '--limit', '2'])
    const first = lines(out)
    expect(first).toMatchObject([{ job_id: ids[0], kind: 'job.enqueued' }, { job_id: ids[1] }])
    const after = /--after (\S+)/.exec(err)?.[1] ?? ''
    expect(lines(await said(['events', '--types', name, '--after', after]))).toMatchObject([
      { job_id: ids[2] },
    ])
    expect(await said(['events', '--types', name, '--kinds', 'run.*,worker.*'])).toBe('')
    for (const wrong of [
      ['--kinds', 'job.complete'],
      ['--after', 'yesterday'],
    ]) {
      expect(await run(['events', ...wrong])).toMatchObject({ code: 1 })
    }
    expect(await run(['events', '--follow', '--limit', '1'])).toMatchObject({ code: 2 })
  })

  it('are lines for people in a terminal', async () => {
    const text = await said(['events', '--types', name], { width: 60, env: { NO_COLOR: '1' } })
    expect(text).toMatch(/^\d\d:\d\d:\d\d\.\d{3} {2}job\.enqueued +\S/)
    for (const line of text.trimEnd().split('\n')) expect([...line].length).toBeLessThanOrEqual(60)
  })

  it('are followed until Ctrl-C', async () => {
    let stop = (_: string) => {}
    const asked = new Promise<string>((resolve) => {
      stop = resolve
    })
    let written = ''
    const following = run(['events', '--follow', '--after', 'beginning', '--types', name], {
      asked,
      onWrite(text) {
        written += text
      },
    })
    await expect.poll(() => lines(written).length).toBe(3)
    ids.push(...(await enqueueBatch(database.db, name, [{}, {}])))
    await expect.poll(() => lines(written).length).toBe(5)
    stop('SIGINT')
    expect(await following).toMatchObject({ code: 0, err: '' })
    expect(lines(written).map((event) => event.job_id)).toEqual(ids)
  })
})
