import { beforeEach, describe, expect, it } from 'vitest'
import * as engine from '../../src/database/engine.ts'
import { cli, spawnCli } from '../cli/cli.ts'
import { BUILD_TIMEOUT } from '../support/kafka/cluster.ts'
import { ownDatabase } from '../support/server.ts'
import { Stage } from './stage.ts'

const RELAY = ['relay', 'kafka', '--consumer', 'c', '--brokers', '127.0.0.1:1']

describe('a command line that is wrong', () => {
  it.each([
    [['relay', 'kafka'], 2, '--consumer is missing'],
    [['relay', 'kafka', '--consumer', 'c'], 2, '--brokers is missing'],
    [['relay', 'kafka', '--consumer', 'c', '--brokers', 'a:1,'], 2, '"" is no broker'],
    [['relay', 'kafka', '--consumer', 'c', '--brokers', 'http://a:1'], 2, 'is no broker'],
    [[...RELAY, '--client-id', 'my relay'], 2, '--client-id must be a word'],
    [[...RELAY, '--max', '0'], 2, '--max must be from 1 to 10000'],
    [[...RELAY, '--topic', 'my {topic}'], 1, 'JE003'],
    [[...RELAY, '--config', 'compression=gzip', '--config', 'tsl=true'], 1, 'Did you mean tls?'],
    [['relay', 'kafka', '--consumer', 'c', '--brokers', 'a:99999'], 2, '"a:99999" is no broker'],
    [['relay', 'kafka', '--consumer', 'c', '--brokers', 'a:0'], 2, '"a:0" is no broker'],
    [['relay', 'kafka', '--consumer', 'k 1', '--brokers', 'a:1'], 2, '--consumer must be a word'],
    [[...RELAY, '--topic', '..'], 1, 'no topic may have that name'],
    [[...RELAY, '--config', 'patience=soon'], 1, 'patience must be a duration'],
    [[...RELAY, '--config', 'send-timeout=0ms'], 1, 'send-timeout must be at least 1 ms'],
    [[...RELAY, '--lease', 'soon'], 2, '--lease must be a duration'],
    [[...RELAY, '--lease', '1ms'], 2, '--lease must be at least 1000 ms'],
    [[...RELAY, '--lease', '2d'], 2, '--lease must be at most 86400000 ms'],
    [[...RELAY, '--poll', '0'], 2, '--poll must be a duration'],
    [RELAY, 1, 'ECONNREFUSED'],
  ])('%j', async (args, exitCode, message) => {
    const env = { DATABASE_URL: 'postgresql://127.0.0.1:1/none' }
    const { code, out, err } = await cli(args, { env })
    expect({ code, out }).toEqual({ code: exitCode, out: '' })
    expect(err).toContain(message)
    expect(err).not.toMatch(/\n\s+at /)
  })

  it('its help tells every setting', async () => {
    const { out } = await cli(['relay', 'kafka', '--help'])
    for (const name of ['sasl-mechanism', 'tls-ca', 'compression', 'patience', 'replay_parked']) {
      expect(out).toContain(name)
    }
  })
})

describe('as a process', () => {
  const database = ownDatabase()

  it('says how the client is installed where it is not', async () => {
    const without = new URL('without-client.mjs', import.meta.url).href
    const relay = spawnCli(RELAY, {
      DATABASE_URL: database.url,
      NODE_OPTIONS: `--import ${without}`,
    })
    const { code, err } = await relay.ended
    expect(code).toBe(2)
    expect(err).toContain('needs the package @platformatic/kafka, which is not installed')
    expect(err).toMatch(/npm install @platformatic\/kafka@\d/)
    expect(err).not.toMatch(/\n\s+at /)
  })

  it('without a cluster it waits for one, tells so, and ends when it is asked to', async () => {
    const relay = spawnCli([...RELAY, '--start', 'beginning'], { DATABASE_URL: database.url })
    await engine.configureType(database.db, 'relay.cli', { publish_enqueued: true })
    await engine.enqueue(database.db, { type: 'relay.cli' })
    const [line] = await relay.says(/.*publishing failed; the same events come again.*/)
    expect(JSON.parse(line)).toMatchObject({
      level: 40,
      consumer: 'c',
      failures: 1,
      error: { message: expect.any(String) },
    })
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0, err: '' })
    expect(await engine.getConsumer(database.db, 'c')).toMatchObject({
      lag_events: expect.any(Number),
    })
  })

  it('without events it tells that no broker can be reached', async () => {
    const brokers = '127.0.0.1:1,[::1]:1'
    const relay = spawnCli(['relay', 'kafka', '--consumer', 'quiet', '--brokers', brokers], {
      DATABASE_URL: database.url,
    })
    const [line] = await relay.says(/.*no broker can be reached now.*/)
    expect(JSON.parse(line)).toMatchObject({
      level: 40,
      consumer: 'quiet',
      reason: expect.stringMatching(/^127\.0\.0\.1:1: ECONNREFUSED; \[::1\]:1: E[A-Z]+$/),
    })
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0, err: '' })
  })

  it('ends with what to do when its consumer is dropped', async () => {
    const relay = spawnCli(['relay', 'kafka', '--consumer', 'gone', '--brokers', '127.0.0.1:1'], {
      DATABASE_URL: database.url,
    })
    await relay.says(/the relay to Kafka begins/)
    await engine.dropConsumer(database.db, 'gone')
    const { code, err } = await relay.ended
    expect(code).toBe(1)
    expect(err).toMatch(/^error JE002: consumer 'gone' does not exist/)
  })
})

describe('with a cluster', () => {
  let stage: Stage
  beforeEach(async (context) => {
    stage = await Stage.open(context)
    return () => stage[Symbol.asyncDispose]()
  }, BUILD_TIMEOUT)

  it('carries on with the consumer that is there, whatever its filter, and ends well on SIGTERM', async () => {
    const consumer = await stage.consumer('narrow', { kinds: ['job.completed'] })
    await stage.lives(3)
    const relay = spawnCli(
      ['relay', 'kafka', '--consumer', consumer, '--brokers', stage.cluster.brokers],
      { DATABASE_URL: stage.database.url },
    )
    const received = await stage.arrived(consumer)
    expect(received.map(({ topic }) => topic)).toEqual(Array(3).fill('fencepost.job.completed'))
    relay.child.kill('SIGTERM')
    const { code, err, out } = await relay.ended
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const lines = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines).toContainEqual(expect.objectContaining({ consumer, new: false }))
    expect(lines.at(-1)).toMatchObject({ state: 'stopped', published: 3, parked: 0 })
    expect(await stage.stands(consumer, 'reader')).toBeNull()
  })
})
