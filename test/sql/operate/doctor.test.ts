import { describe, expect, it } from 'vitest'
import { moveClock, restoreClock } from '../../support/clock.ts'
import {
  bury,
  claim,
  enqueue,
  enqueueBatch,
  freshType,
  maintain,
  settings,
  started,
} from '../../support/engine.ts'
import { createConsumer, publishing, readEvents, takeTick } from '../../support/outbox.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { column, one } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

interface Finding {
  readonly severity: string
  readonly finding: string
  readonly why: string
  readonly remedy: string
  readonly topic: string
}
const doctor = () => db().query<Finding>('select * from fencepost.doctor()')
const topics = async () => (await doctor()).map(({ topic }) => topic)
const found = async (topic: string, word = '') =>
  (await doctor()).find((row) => row.topic === topic && row.finding.includes(word))

describe('doctor', () => {
  it('finds nothing wrong in a healthy database, and changes nothing', async () => {
    await maintain(db())
    const findings = (await doctor()).filter(({ topic }) => topic !== 'durability') // tests run without fsync
    expect(findings.map(({ topic }) => topic)).toEqual(['version'])
    await db().transaction(async (tx) => {
      await tx.query('set transaction read only')
      await tx.query('select * from fencepost.doctor()')
    })
  })

  it('names types that wait for a worker, and whose name may be misspelt', async () => {
    await enqueue(db(), 'email.send')
    await db().query(`select fencepost.register_worker('w', types => '{email.sent}')`)
    expect(await found('no_worker', 'email.send')).toMatchObject({
      severity: 'warning',
      remedy: expect.stringContaining(
        `A worker claims 'email.sent': is one of the names misspelt?`,
      ),
    })
    expect(await found('unknown_type', 'email.sent')).toMatchObject({
      severity: 'info',
      remedy: expect.stringContaining(`did you mean 'email.send'?`),
    })
  })

  it('takes no name for misspelt that is right', async () => {
    await db().query(
      `select fencepost.register_worker('near', types => '{mga}'), fencepost.enqueue('mga'), fencepost.enqueue('mgb')`,
    )
    expect((await found('no_worker', 'mgb'))?.remedy).toBe(
      'Start a worker for mgb, or cancel the jobs.',
    )
    await db().query(`select fencepost.register_worker('far', types => '{mgc,mgb}')`)
    expect((await found('unknown_type', 'mgc'))?.remedy).not.toContain('did you mean')
  })

  it('names dead letters, full, closed and paused types', async () => {
    const type = freshType()
    await settings(db(), type, { dead_letter_alert: 2, max_pending: 1 })
    for (let n = 0; n < 2; n++) await bury(db(), await started(db(), type))
    await enqueue(db(), type)
    await db().query(
      `select fencepost.pause_type($1, 'night'), fencepost.configure_type($1, accept => false)`,
      [type],
    )
    expect(await found('dead_letters', type)).toMatchObject({
      finding: expect.stringContaining('has 2 dead letters (it alerts at 2)'),
    })
    expect(await found('full', type)).toBeDefined()
    expect(await found('closed', type)).toBeDefined()
    expect(await found('paused', type)).toMatchObject({
      finding: expect.stringMatching(/\(night\); 1 of its jobs wait$/),
    })
  })

  it('notices that maintain() does not run, and what comes of it', async () => {
    const type = freshType()
    await enqueue(db(), type, { delay: '1 second' })
    const job = await started(db(), type, {}, 'gone')
    await maintain(db())
    await moveClock(db(), '20 minutes')
    expect(await topics()).toEqual(expect.arrayContaining(['maintain', 'unpromoted']))
    await db().query(
      `update fencepost_private.worker set status = 'lost', ended_at = fencepost_private.now() - interval '6 minutes' where name = 'gone'`,
    )
    expect(await found('unswept', 'gone')).toBeDefined()
    expect(await found('lost_workers', 'gone')).toBeDefined()
    await maintain(db())
    expect(await one(db(), 'select status from fencepost.jobs where id = $1', [job.job_id])).toBe(
      'pending',
    )
    const after = await topics()
    for (const topic of ['maintain', 'unpromoted', 'unswept']) expect(after).not.toContain(topic)
    await restoreClock(db())
  })

  it('names slow types', async () => {
    const type = freshType()
    await enqueueBatch(db(), type, 2)
    await claim(db(), type, 1, 'slow')
    await moveClock(db(), '11 minutes')
    await db().query(`select fencepost.heartbeat('slow')`)
    expect(await found('slow', type)).toBeDefined()
    await restoreClock(db())
  })

  it('names consumers that nobody reads, that are slow, that set events aside, and that expired', async () => {
    const type = await publishing(db(), freshType())
    const [idle, busy] = [`idle.${type}`, `busy.${type}`]
    for (const name of [idle, busy]) await createConsumer(db(), name, { types: [type] })
    await enqueueBatch(db(), type, 2)
    await takeTick(db())
    expect(await topics()).not.toContain('consumer_unread')
    await moveClock(db(), '11 minutes')
    const [first] = await readEvents(db(), busy, 1)
    expect(await found('consumer_unread', idle)).toMatchObject({
      severity: 'warning',
      finding: expect.stringMatching(/: 2 events wait, the oldest for 6\d\d s$/),
      why: expect.stringContaining('until it is 7 days behind'),
    })
    expect(await found('consumer_unread', busy)).toBeUndefined()
    const fresh = `fresh.${type}` // has as much to read, and nobody can have read it yet
    await createConsumer(db(), fresh, {}, 'beginning')
    expect(await found('consumer_slow', fresh)).toBeUndefined()
    await db().query('select fencepost.drop_consumer($1)', [fresh])
    expect(await found('consumer_slow', busy)).toMatchObject({
      remedy: expect.stringContaining('the log of reader-1'),
    })
    await db().query('select fencepost.park_event($1, $2, $3)', [
      busy,
      first?.position,
      'too large',
    ])
    expect(await found('parked_events', busy)).toMatchObject({
      finding: expect.stringMatching(/1 events aside, the last because: too large$/),
    })
    await db().query('select fencepost.discard_parked($1)', [busy])
    await moveClock(db(), '8 days')
    await db().query('select fencepost_private.expire_consumers()')
    const expired = await found('consumer_expired', idle)
    expect(expired).toMatchObject({ severity: 'error' })
    await db().query(/select fencepost\.seek_consumer.*?;/.exec(expired?.remedy ?? '')?.[0] ?? '')
    await db().query('select fencepost.drop_consumer($1)', [busy])
    const after = await topics()
    for (const topic of ['consumer_expired', 'parked_events']) expect(after).not.toContain(topic)
    await db().query(/select fencepost\.drop_consumer.*?;/.exec(expired?.remedy ?? '')?.[0] ?? '')
    expect((await topics()).filter((topic) => topic.startsWith('consumer'))).toEqual([])
    await restoreClock(db())
  })

  it('names drifted settings of the hot tables', async () => {
    await db().query(
      'alter table fencepost_private.lease set (autovacuum_vacuum_threshold = 50), set (autovacuum_enabled = false)',
    )
    const remedies = (await doctor())
      .filter(({ topic }) => topic === 'autovacuum')
      .map(({ remedy }) => remedy)
    expect(remedies).toHaveLength(2)
    for (const remedy of remedies) await db().query(remedy)
    expect(await topics()).not.toContain('autovacuum')
  })

  it('warns before the partitions run out', async () => {
    await db().query(`select setval('fencepost_private.job_id_seq', 3600000)`)
    const finding = await found('partitions', 'job')
    expect(finding).toMatchObject({
      severity: 'error',
      finding: '400000 ids are left in the partitions of job',
    })
    await db().query(finding?.remedy.split(';')[0] ?? '')
    expect(await topics()).not.toContain('partitions')
  })

  it('names who holds a snapshot, or a claim of a limited type, open', async () => {
    const type = freshType()
    await settings(db(), type, { max_running: 3 })
    await enqueue(db(), type)
    await using other = await Session.open(database.url)
    await other.begin()
    await other.query('select * from fencepost.claim($1, $2, 1)', ['w', [type]])
    expect(await found('claim_open', type)).toBeUndefined() // not before ten seconds
    expect(await found('held_snapshot')).toBeUndefined() // nor before five minutes
    const open = await db().query<Finding>(
      `select * from fencepost_private.doctor_sessions('0', '0')`,
    )
    expect(open).toContainEqual(
      expect.objectContaining({
        topic: 'claim_open',
        finding: expect.stringContaining(
          `session ${other.pid} has kept its claim of type ${type} open`,
        ),
      }),
    )
    expect(open).toContainEqual(
      expect.objectContaining({
        topic: 'held_snapshot',
        finding: expect.stringContaining(`session ${other.pid} `),
        remedy: expect.stringContaining(`pg_terminate_backend(${other.pid})`),
      }),
    )
    await other.rollback()
  })

  it('says what it cannot see without pg_monitor', async () => {
    await db().query('create role blind nologin')
    try {
      await db().query('grant usage on schema fencepost_private to blind')
      await db().query(
        'grant execute on function fencepost_private.doctor_sessions(interval, interval) to blind',
      )
      await db().query('grant select on all tables in schema fencepost_private to blind')
      await db().transaction(async (tx) => {
        await tx.query('set local role blind')
        expect(await column(tx, 'select topic from fencepost_private.doctor_sessions()')).toEqual([
          'blind',
        ])
      })
    } finally {
      await db().query('drop owned by blind')
      await db().query('drop role blind')
    }
  })
})
