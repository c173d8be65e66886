import { describe, expect, it } from 'vitest'
import {
  bury,
  claim,
  claimOne,
  complete,
  enqueue,
  enqueueBatch,
  freshType,
  maintain,
  started,
  violations,
} from '../../support/engine.ts'
import { restoreAsDump } from '../../support/restored.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'
import { column, one, refused } from '../../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

describe('after_restore', () => {
  it('has nothing to do in a healthy database', async () => {
    await enqueue(db(), freshType())
    expect(await db().query('select * from fencepost.after_restore()')).toEqual([])
  })

  it('mends what a logical restore leaves, in order; until then housekeeping refuses and doctor says why', async () => {
    const type = freshType()
    const ids = await enqueueBatch(db(), type, 3)
    await maintain(db())
    const [first] = await claim(db(), type, 1)
    if (!first) throw new Error('three jobs were there')
    await db().query('select fencepost.release($1, $2)', [first.job_id, first.token]) // now last in line
    await complete(db(), await claimOne(db(), type))
    await bury(db(), await started(db(), type, { priority: 9 }))
    await enqueue(db(), type, { delay: '1 hour' })
    const line = [ids[2], first.job_id]

    await restoreAsDump(db(), 1_000_000_000)
    await refused(db().query('select * from fencepost.maintain()'), 'JE004')
    expect(
      await column(db(), `select severity from fencepost.doctor() where topic = 'restored'`),
    ).toEqual(['error'])
    expect((await violations(db())).map((row) => row.invariant)).toContain(
      `transaction numbers are this server's`,
    )

    const steps = await column(db(), 'select step from fencepost.after_restore()')
    expect(steps).toEqual([
      'watermarks voided',
      'ready jobs renumbered',
      'consumers moved to the new numbers',
      'events renumbered',
      'counters counted anew',
      'webhooks that now deliver from here',
    ])
    expect(await violations(db())).toEqual([])
    expect(await db().query('select * from fencepost.after_restore()')).toEqual([])
    await maintain(db())
    expect(
      await one(
        db(),
        'select (enqueued_total, ready, delayed, dead_letter, completed_total, dead_lettered_total)::text from fencepost.stats($1)',
        [type],
      ),
    ).toBe('(5,2,1,1,1,1)')
    expect(
      await column(
        db(),
        `select kind::text from fencepost_private.event where kind = 'operator.restored'`,
      ),
    ).toHaveLength(1)

    expect((await claim(db(), type, 10)).map((job) => job.job_id)).toEqual(line)
    await enqueue(db(), type)
    await maintain(db())
    expect(await claim(db(), type, 10)).toHaveLength(1)
    expect(await violations(db())).toEqual([])
  })

  it('is refused outside READ COMMITTED', async () => {
    await using session = await Session.open(database.url)
    await session.begin('repeatable read')
    await refused(session.query('select * from fencepost.after_restore()'), 'JE003')
  })
})
