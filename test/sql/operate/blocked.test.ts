import { expect, it } from 'vitest'
import { freshType } from '../../support/engine.ts'
import { ownDatabase } from '../../support/server.ts'
import { Session } from '../../support/sessions.ts'

const database = ownDatabase()

it('the doctor names the transaction that made a type, not those that wait for it', async () => {
  const type = freshType()
  await using maker = await Session.open(database.url)
  await maker.begin()
  await maker.query('select fencepost.enqueue($1)', [type])
  await using waiter = await Session.open(database.url)
  const waiting = await waiter.blocks('select fencepost.enqueue($1)', [type])
  const blocked = await database.db.query<{ topic: string; finding: string; remedy: string }>(
    `select * from fencepost_private.doctor_sessions('0 s', '0 s')`,
  )
  const of = (topic: string) => blocked.filter((row) => row.topic === topic)
  expect(of('blocked')).toMatchObject([
    {
      finding: expect.stringContaining(
        `1 sessions wait for the transaction of session ${maker.pid} `,
      ),
      remedy: expect.stringContaining(`pg_terminate_backend(${maker.pid})`),
    },
  ])
  expect(
    of('held_snapshot')
      .map((row) => row.finding)
      .join(),
  ).not.toContain(`${waiter.pid} `)
  await maker.commit()
  await waiting.answer
})
