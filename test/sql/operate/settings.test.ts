import { describe, expect, it } from 'vitest'
import { json } from '../../../src/database/database.ts'
import {
  claim,
  claimOne,
  complete,
  enqueue,
  enqueueBatch,
  freshType,
} from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

const type = async (name: string) =>
  (await db().query('select * from fencepost.types where type = $1', [name]))[0]
const configure = (name: string, settings: string) =>
  db().query(`select fencepost.configure_type($1, ${settings})`, [name])
const declare = (name: string, settings: unknown) =>
  one<boolean>(db(), 'select fencepost.declare_type($1, $2)', [name, json(settings)])
const changes = (name: string) =>
  db().query<{ kind: string; actor: string; data: Record<string, unknown> }>(
    `select kind::text, actor, data from fencepost_private.event where data ->> 'type' = $1 order by id`,
    [name],
  )

describe('configure_type', () => {
  it('creates a type, sets what is given and leaves the rest', async () => {
    const name = freshType()
    await configure(
      name,
      `max_running => 3, timeout => '30 seconds', payload_check => '$.to like_regex "@"', accept => false`,
    )
    expect(await type(name)).toMatchObject({
      max_running: 3,
      timeout: '00:00:30',
      payload_check: '($."to" like_regex "@")',
      accept: false,
      max_attempts: 5,
      overridden: ['accept', 'max_running', 'payload_check', 'timeout'],
    })
    await configure(name, 'max_attempts => 1')
    expect(await type(name)).toMatchObject({ max_running: 3, max_attempts: 1 })
  })

  it('takes 0 for no limit and an empty text for no check', async () => {
    const name = freshType()
    await configure(
      name,
      `max_running => 3, max_pending => 4, timeout => '1 s', payload_check => '$.a == 1'`,
    )
    await configure(name, `max_running => 0, max_pending => 0, timeout => '0', payload_check => ''`)
    expect(await type(name)).toMatchObject({
      max_running: null,
      max_pending: null,
      timeout: null,
      payload_check: null,
    })
  })

  it('tells who changed what, once', async () => {
    const name = freshType()
    await db().transaction(async (tx) => {
      await tx.query(`set local fencepost.actor = 'ada'`)
      for (let n = 0; n < 2; n++)
        await tx.query('select fencepost.configure_type($1, max_attempts => 9)', [name])
    })
    expect(await changes(name)).toEqual([
      {
        kind: 'operator.type_configured',
        actor: 'ada',
        data: {
          type: name,
          source: 'operator',
          before: { max_attempts: 5, overridden: [] },
          after: { max_attempts: 9, overridden: ['max_attempts'] },
        },
      },
    ])
  })

  it('gives settings back to code, or to the defaults', async () => {
    const name = freshType()
    await declare(name, { max_attempts: 3 })
    await configure(name, `max_attempts => 9, backoff_base => '1 minute'`)
    await declare(name, { max_attempts: 4 })
    expect(await type(name)).toMatchObject({ max_attempts: 9, backoff_base: '00:01:00' })
    await configure(name, `reset => '{max_attempts,backoff_base}'`)
    expect(await type(name)).toMatchObject({
      max_attempts: 4,
      backoff_base: '00:00:02',
      overridden: [],
    })
  })

  it('refuses every bad value, naming the setting and what was received', async () => {
    const name = freshType()
    const bad = {
      max_running: '-1',
      max_attempts: '0',
      timeout: `'-1 second'`,
      backoff_base: `'-1 second'`,
      backoff_factor: '0.5',
      backoff_cap: `'200 years'`,
      backoff_jitter: `'NaN'`,
      max_pending: '-1',
      max_payload_bytes: '1',
      payload_check: `'$.a >'`,
      dead_letter_alert: '0',
      keep_finished: `'-1 day'`,
    }
    for (const [setting, value] of Object.entries(bad)) {
      const refusal = await refused(configure(name, `${setting} => ${value}`), 'JE003')
      expect(refusal.message).toContain(`${setting} must be`)
      expect(refusal.detail).toContain(`received ${setting} = `)
    }
    expect(await type(name)).toBeUndefined()
  })

  it('refuses unknown names to reset, and a setting that is set and reset at once', async () => {
    const refusal = await refused(configure('a', `reset => '{maxattempts}'`), 'JE003')
    expect(refusal.hint).toContain(`did you mean 'max_attempts'?`)
    await refused(configure('a', `reset => '{null}'`), 'JE003')
    await refused(configure('a', `max_attempts => 3, reset => '{max_attempts}'`), 'JE003')
    await refused(configure('not a name', 'max_attempts => 3'), 'JE003')
  })

  it('takes effect at the next claim', async () => {
    const name = freshType()
    await enqueueBatch(db(), name, 3)
    await configure(name, 'max_running => 1')
    expect(await claim(db(), name, 3)).toHaveLength(1)
    await configure(name, 'max_running => 2')
    expect(await claim(db(), name, 3)).toHaveLength(1)
    await configure(name, 'accept => false')
    await refused(enqueue(db(), name), 'JE007')
  })
})

describe('declare_type', () => {
  it('sets what code says, and says and writes nothing when that is known', async () => {
    const name = freshType()
    expect(
      await declare(name, { max_attempts: 3, timeout: '30s', max_running: 2, backoff_base: 5 }),
    ).toBe(true)
    expect(await type(name)).toMatchObject({
      max_attempts: 3,
      timeout: '00:00:30',
      max_running: 2,
      backoff_base: '00:00:05',
      overridden: [],
    })
    await db().transaction(async (tx) => {
      const settings = json({
        max_running: 2,
        timeout: '30 seconds',
        max_attempts: 3,
        backoff_base: '5 s',
      })
      expect(await one(tx, 'select fencepost.declare_type($1, $2)', [name, settings])).toBe(false)
      expect(await one(tx, 'select pg_current_xact_id_if_assigned()::text')).toBeNull()
    })
    expect((await changes(name)).map(({ data }) => data.source)).toEqual(['code'])
  })

  it('gives what is left out its default', async () => {
    const name = freshType()
    await declare(name, { max_attempts: 3, max_running: 2 })
    await declare(name, { max_attempts: 3, payload_check: null })
    expect(await type(name)).toMatchObject({ max_attempts: 3, max_running: null })
  })

  it('never touches what an operator has set', async () => {
    const name = freshType()
    await configure(name, 'max_running => 0, max_attempts => 9')
    expect(await declare(name, { max_running: 7, max_attempts: 2 })).toBe(false)
    expect(await type(name)).toMatchObject({ max_running: null, max_attempts: 9 })
  })

  it('makes a type without settings', async () => {
    const name = freshType()
    expect(await one(db(), 'select fencepost.declare_type($1)', [name])).toBe(false)
    expect(await type(name)).toMatchObject({ max_attempts: 5 })
  })

  it('refuses unknown settings, values of the wrong kind and what is no object', async () => {
    const refusal = await refused(declare('a', { max_attemps: 3 }), 'JE003')
    expect(refusal.hint).toContain(`did you mean 'max_attempts'?`)
    for (const settings of [
      { max_attempts: 'many' },
      { max_attempts: 1.5 },
      { max_running: 1e12 },
      { timeout: 'soon' },
      { timeout: '' },
      { accept: 'perhaps' },
      { backoff_factor: [2] },
      [],
      3,
    ]) {
      await refused(declare('a', settings), 'JE003')
    }
    await refused(declare('no good', {}), 'JE003')
    expect(await type('a')).toBeUndefined()
  })

  it('lets two programs declare at once', async () => {
    const name = freshType()
    await using other = await Session.open(database.url)
    await other.begin()
    await other.query('select fencepost.declare_type($1, $2)', [name, '{"max_attempts": 2}'])
    await using second = await Session.open(database.url)
    const waiting = await second.blocks('select fencepost.declare_type($1, $2)', [
      name,
      '{"max_attempts": 4}',
    ])
    await other.commit()
    await waiting.answer
    expect(await type(name)).toMatchObject({ max_attempts: 4 })
  })
})

describe('pause_type and resume_type', () => {
  it('stop and start claims; jobs that run and enqueues go on', async () => {
    const name = freshType()
    await enqueueBatch(db(), name, 2)
    const running = await claimOne(db(), name)
    for (let n = 0; n < 2; n++)
      await db().query('select fencepost.pause_type($1, $2)', [name, 'incident 7'])
    expect(await claim(db(), name, 1)).toEqual([])
    await enqueue(db(), name)
    await complete(db(), running)
    for (let n = 0; n < 2; n++) await db().query('select fencepost.resume_type($1)', [name])
    expect(await claim(db(), name, 5)).toHaveLength(2)
    expect((await changes(name)).map(({ kind, data }) => [kind, data.reason])).toEqual([
      ['operator.type_paused', 'incident 7'],
      ['operator.type_resumed', undefined],
    ])
  })

  it('wake who sleeps, when a type resumes', async () => {
    const name = freshType()
    await enqueue(db(), name)
    await db().query('select fencepost.pause_type($1)', [name])
    await using sleeper = await Session.open(database.url)
    const heard = await sleeper.listen('fencepost')
    await sleeper.query('select fencepost.sleep_lock(fencepost.wake_groups($1))', [[name]])
    await db().query('select fencepost.resume_type($1)', [name])
    await sleeper.query('select 1')
    expect(heard).toHaveLength(1)
  })

  it('refuse what is no name, and a type that does not exist', async () => {
    await refused(db().query(`select fencepost.pause_type('')`), 'JE003')
    await refused(db().query('select fencepost.resume_type($1)', [freshType()]), 'JE002')
  })
})

describe('drain_worker', () => {
  it('lets a worker finish and gives it nothing new', async () => {
    const name = freshType()
    await enqueueBatch(db(), name, 2)
    const held = await claimOne(db(), name, 'drained')
    const id = await one<number>(db(), `select id from fencepost.workers where name = 'drained'`)
    await using listener = await Session.open(database.url)
    const heard = await listener.listen('fencepost')
    for (let n = 0; n < 2; n++) await db().query('select fencepost.drain_worker($1)', [id])
    await listener.query('select 1')
    expect(heard.map((text) => JSON.parse(text))).toEqual([{ worker: id, drain: true }])
    expect(await claim(db(), name, 1, 'drained')).toEqual([])
    expect(
      await db().query(
        `select directive from fencepost.heartbeat('drained', array[$1::bigint], array[$2::int])`,
        [held.job_id, held.token],
      ),
    ).toEqual([{ directive: 'drain' }])
    await complete(db(), held)
    await db().query('select fencepost.stop_worker($1)', [id])
    await refused(db().query('select fencepost.drain_worker($1)', [id]), 'JE004')
    await refused(db().query('select fencepost.drain_worker(123456)'), 'JE002')
  })
})
