import { describe, expect, it } from 'vitest'
import type { OutboxEvent } from '../../src/database/engine.ts'
import { messageOf, sizeOf } from '../../src/relay/kafka/message.ts'
import { kafkaSettings } from '../../src/relay/kafka/settings.ts'
import { InvalidTopicError, TopicTemplate } from '../../src/relay/kafka/topic.ts'
import { verdictOf } from '../../src/relay/kafka/verdict.ts'

const event: OutboxEvent = {
  position: '7.0',
  id: 12,
  kind: 'job.completed',
  at: new Date('2030-01-31T12:00:00.123Z'),
  tenant: '',
  type: 'email.send',
  job_id: 7,
  run_id: null,
  task_id: null,
  workflow: null,
  attempt: 1,
  outcome: 'completed',
  worker: 'w',
  ready_at: null,
  started_at: null,
  actor: null,
  data: { answer: 42 },
}

const JE003 = (text: string) =>
  expect.objectContaining({ code: 'JE003', message: expect.stringContaining(text) })

describe('topics', () => {
  it.each([
    ['fencepost.{kind}', {}, 'fencepost.job.completed'],
    ['{type}', {}, 'email.send'],
    ['{tenant}-{type}', { tenant: 'acme' }, 'acme-email.send'],
    ['{tenant}.{workflow}.{outcome}', { outcome: null }, 'none.none.none'],
    ['{workflow}', { workflow: 'Übergabe: 1/2' }, '_bergabe__1_2'],
    ['all-events_1', {}, 'all-events_1'],
  ])('%s of %j is %s', (template, change, topic) => {
    expect(new TopicTemplate(template).topicOf({ ...event, ...change })).toBe(topic)
  })

  it.each([
    ['', 'empty'],
    ['{knid}', '{knid} is nothing'],
    ['fencepost.{kind', 'a brace stands alone'],
    ['fencepost.kind}', 'a brace stands alone'],
    ['{}', '{} is nothing'],
    ['my topic', 'a character that no topic may have'],
    ['a/{kind}', 'a character that no topic may have'],
    ['x'.repeat(250), 'more than 249'],
  ])('%j is none', (template, problem) => {
    expect(() => new TopicTemplate(template)).toThrow(JE003(problem))
  })

  it('says what was probably meant', () => {
    expect(() => new TopicTemplate('{knid}')).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('Did you mean kind?') }),
    )
  })

  it.each([
    ['{type}', { type: 'x'.repeat(250) }, '250 characters'],
    ['{tenant}', { tenant: '..' }, 'no name of a topic'],
    ['{tenant}', { tenant: '.' }, 'no name of a topic'],
  ])('an event may make a name that no topic can have', (template, change, problem) => {
    const topics = new TopicTemplate(template)
    const topic = () => topics.topicOf({ ...event, ...change })
    expect(topic).toThrow(InvalidTopicError)
    expect(topic).toThrow(problem)
  })
})

describe('messages', () => {
  it.each([
    [{}, 'job:7'],
    [{ run_id: 3 }, 'run:3'],
    [{ run_id: 3, job_id: null }, 'run:3'],
    [{ job_id: null, kind: 'worker.lost' }, 'worker.lost'],
  ])('of %j has the key %s', (change, key) => {
    expect(messageOf({ ...event, ...change }, 't').key.toString()).toBe(key)
  })

  it('are the event as JSON, without its position, at the time when it happened', () => {
    const { value, timestamp, headers } = messageOf({ ...event, tenant: 'acme' }, 't')
    const { position: _, ...rest } = event
    expect(JSON.parse(value.toString())).toEqual({
      ...rest,
      tenant: 'acme',
      at: '2030-01-31T12:00:00.123Z',
    })
    expect(timestamp).toBe(BigInt(event.at.getTime()))
    expect(Object.fromEntries([...headers].map((each) => each.map(String)))).toEqual({
      'fencepost-event-id': '12',
      'fencepost-kind': 'job.completed',
      'fencepost-type': 'email.send',
      'fencepost-tenant': 'acme',
      'content-type': 'application/json',
    })
  })

  it('tell numbers exactly, and their size', () => {
    const message = messageOf({ ...event, id: (2n ** 60n) as unknown as number, type: null }, 't')
    expect(JSON.parse(message.value.toString()).id).toBe('1152921504606846976')
    expect(sizeOf(message)).toBeGreaterThan(message.value.length)
  })
})

describe('settings', () => {
  it('have defaults', () => {
    expect(kafkaSettings([], {})).toEqual({
      client: { autocreateTopics: true },
      sendTimeout: 20_000,
      patience: 60_000,
      requestBytes: 900_000,
      messageBytes: 50_000_000,
    })
  })

  it('reach the client', () => {
    const config = [
      ...['tls=true', 'compression=gzip', 'create-topics=false', 'send-timeout=5s', 'patience=0s'],
      ...['sasl-mechanism=SCRAM-SHA-256', 'sasl-username=ada'],
    ]
    expect(kafkaSettings(config, { FENCEPOST_KAFKA_PASSWORD: 'a=b' })).toMatchObject({
      client: {
        tls: {},
        tlsServerName: true,
        compression: 'gzip',
        autocreateTopics: false,
        sasl: { mechanism: 'SCRAM-SHA-256', username: 'ada', password: 'a=b' },
      },
      sendTimeout: 5_000,
    })
    expect(kafkaSettings([...config, 'sasl-password=c=d'], {}).client.sasl).toMatchObject({
      password: 'c=d',
    })
  })

  it.each([
    [['compresion=gzip'], 'there is no setting compresion'],
    [['compression'], 'compression has no value'],
    [['compression=zip'], 'compression cannot be zip'],
    [['tls=yes'], 'tls cannot be yes'],
    [['tls-ca=/x'], 'certificates are of no use without TLS'],
    [['tls=true', 'tls-ca=/nonexistent'], 'tls-ca cannot be read'],
    [['sasl-username=ada'], 'a user name is of no use without a mechanism'],
    [['sasl-mechanism=PLAIN', 'sasl-username=ada'], 'PLAIN needs a user name and a password'],
    [['request-bytes=1e3'], 'request-bytes must be a number of bytes'],
    [['send-timeout=soon'], 'duration'],
  ])('%j are refused', (config, problem) => {
    expect(() => kafkaSettings(config, {})).toThrow(JE003(problem))
  })
})

describe('a failure', () => {
  const broker = (apiId: string) => Object.assign(new Error('says the broker'), { apiId })

  it.each([
    [
      broker('MESSAGE_TOO_LARGE'),
      { about: 'message', final: true, reason: 'MESSAGE_TOO_LARGE: says the broker' },
    ],
    [broker('TOPIC_AUTHORIZATION_FAILED'), { about: 'access', final: false }],
    [broker('UNKNOWN_TOPIC_OR_PARTITION'), { about: 'topic', final: false }],
    [
      Object.assign(new Error('Unknown topic x.'), { code: 'PLT_KFK_USER' }),
      { about: 'topic', final: false },
    ],
    [broker('UNKNOWN_SERVER_ERROR'), { about: 'message', final: false }],
    [broker('NOT_ENOUGH_REPLICAS'), { about: 'none' }],
    [broker('CLUSTER_AUTHORIZATION_FAILED'), { about: 'none' }],
    [broker('INVALID_REPLICATION_FACTOR'), { about: 'none' }],
    [broker('UNSUPPORTED_COMPRESSION_TYPE'), { about: 'none' }],
    [broker('UNSUPPORTED_FOR_MESSAGE_FORMAT'), { about: 'none' }],
    [new Error('ECONNREFUSED'), { about: 'none', reason: 'ECONNREFUSED' }],
    ['a text', { about: 'none', reason: 'a text' }],
  ])('%s', (error, verdict) => {
    expect(verdictOf(error)).toMatchObject(verdict)
  })

  it('of several requests, or with a cause, is the most telling of them', () => {
    const inner = new AggregateError([
      broker('NOT_LEADER_OR_FOLLOWER'),
      broker('UNKNOWN_TOPIC_OR_PARTITION'),
    ])
    const outer = new AggregateError([
      new Error('cut'),
      new Error('x', { cause: broker('RECORD_LIST_TOO_LARGE') }),
      inner,
    ])
    expect(verdictOf(outer)).toMatchObject({ about: 'message', final: true })
    expect(verdictOf(inner)).toMatchObject({ about: 'topic', final: false })
    const denied = new AggregateError([outer, broker('TOPIC_AUTHORIZATION_FAILED')])
    expect(verdictOf(denied)).toMatchObject({ about: 'access' })
  })
})
