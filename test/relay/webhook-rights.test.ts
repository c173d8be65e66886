import { describe, expect, it } from 'vitest'
import { freshRole, type Role } from '../support/role.ts'
import { one } from '../support/sql.ts'
import { Endpoint } from './endpoint.ts'
import { serving } from './serving.ts'

const { database, db, webhook, relaying, ended } = serving()

/** A role that may do all that a worker does. */
async function workerRole(): Promise<Role> {
  const role = await freshRole(database.url)
  await db().query(
    `grant usage on schema fencepost to ${role.name}; grant select on all tables in schema fencepost to ${role.name}`,
  )
  return role
}

const DELIVERY = 'fencepost.webhook_delivery(bigint, int)'

describe('a relay whose role may not have what is to be delivered', () => {
  it('does not start', async () => {
    await using role = await workerRole()
    await using relay = relaying({ url: role.url })
    await expect(relay.running).rejects.toMatchObject({
      code: 'JE009',
      detail: expect.stringContaining('permission denied for function webhook_delivery'),
      hint: expect.stringContaining('lacks a grant'),
    })
  })

  it('ends when it loses the right, and uses up no attempt', async () => {
    await using endpoint = await Endpoint.open()
    await using role = await workerRole()
    await db().query(`grant execute on function ${DELIVERY} to ${role.name}`)
    const made = await webhook(endpoint.url)
    {
      await using relay = relaying({ url: role.url })
      await made.tell()
      await expect.poll(() => endpoint.hits.length).toBe(1)
      await db().query(`revoke execute on function ${DELIVERY} from ${role.name}`)
      await made.tell()
      await expect(relay.running).rejects.toMatchObject({ code: 'JE009' })
      expect(ended(made.name)).toMatchObject([{ outcome: 'completed' }, { outcome: 'released' }])
    }
    await using _ = relaying()
    await expect.poll(() => ended(made.name)).toMatchObject([{ outcome: 'completed', attempt: 1 }])
  })
})

it('a database that cannot tell now what is to be delivered uses up no attempt', async () => {
  await using endpoint = await Endpoint.open()
  const whole = await one<string>(db(), `select pg_get_functiondef('${DELIVERY}'::regprocedure)`)
  const made = await webhook(endpoint.url)
  await made.configure('max_attempts => 1')
  await using _ = relaying()
  await made.tell()
  await expect.poll(() => ended(made.name)).toMatchObject([{ outcome: 'completed' }])
  await db().query(
    whole.replace(/^begin$/m, `begin\n  raise 'no space left' using errcode = 'disk_full';`),
  )
  await made.tell()
  await expect.poll(() => ended(made.name)[1]).toMatchObject({ outcome: 'released' })
  await db().query(whole)
  await expect.poll(() => endpoint.hits.length).toBe(2)
  await expect
    .poll(() => ended(made.name).at(-1))
    .toMatchObject({ outcome: 'completed', attempt: 1 })
})
