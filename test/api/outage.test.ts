import { EventEmitter, once } from 'node:events'
import { createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { endpoints } from '../../src/api/endpoints.ts'
import { type ApiServer, serveApi } from '../../src/api/server.ts'
import { connect, type Queryable } from '../../src/database/database.ts'
import { freshRole } from '../support/role.ts'
import { testDatabase } from '../support/server.ts'

/** Routes that ask nothing of the database. */
const WITHOUT = new Set(['/health', '/openapi.json', '/docs', '/problems/{code}'])

const bodies: Readonly<Record<string, object>> = {
  'post /jobs': { type: 'x' },
  'patch /jobs/{id}': { priority: 1 },
  'post /jobs/{id}/heartbeat': { token: 1 },
  'patch /types/{type}': { max_running: 1 },
  'post /dead-letter/replay': { filter: {} },
  'post /dead-letter/discard': { filter: {} },
  'post /worker/register': { name: 'w' },
  'post /worker/claim': { worker: 'w', types: ['x'] },
  'post /worker/exchange': { worker_id: 1 },
  'post /worker/heartbeat': { worker: 'w' },
  'post /worker/stop': { worker_id: 1 },
  'post /worker/complete': { job_id: 1, token: 1 },
  'post /worker/fail': { job_id: 1, token: 1 },
  'post /worker/release': { job_id: 1, token: 1 },
  'post /worker/progress': { job_id: 1, token: 1, value: 1 },
  'post /worker/step': { job_id: 1, token: 1, name: 'a' },
  'post /worker/suspend': { job_id: 1, token: 1 },
  'post /workflows': { name: 'x', definition: {} },
  'patch /workflows/{name}': { keep_finished: '1 day' },
  'post /runs/{id}/migrate': { to_version: 1 },
  'post /webhooks': { name: 'w', url: 'https://example.com' },
  'patch /webhooks/{name}': { paused: true },
  'put /consumers/{name}': {},
  'post /consumers/{name}/seek': { to: 'now' },
  'post /consumers/{name}/read': { reader: 'r' },
  'post /consumers/{name}/ack': { position: '1.0' },
  'post /consumers/{name}/park': { position: '1.0', reason: 'x' },
  'post /consumers/{name}/parked/replay': { all: true },
  'post /consumers/{name}/parked/discard': { all: true },
}

const queries: Readonly<Record<string, string>> = {
  'get /workflows/{name}/diff': '?from=1&to=2',
}

function ask(server: ApiServer, method: string, path: string): Promise<Response> {
  const body = bodies[`${method} ${path}`]
  const query = queries[`${method} ${path}`] ?? ''
  const filled = path.replaceAll(/\{(id|version)\}/g, '1').replaceAll(/\{\w+\}/g, 'x')
  return fetch(server.url + filled + query, {
    method: method.toUpperCase(),
    ...(body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  })
}

async function expectUnavailable(server: ApiServer): Promise<void> {
  const asked = endpoints.filter(({ path }) => !WITHOUT.has(path))
  await Promise.all(
    asked.map(async ({ method, path }) => {
      const response = await ask(server, method, path)
      expect(response.status, `${method} ${path}`).toBe(503)
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(await response.json()).toMatchObject({ code: '08006', type: '/problems/08006' })
    }),
  )
}

describe.each([
  ['refuses connections', false],
  ['swallows them', true],
])('a database that %s', (_, swallows) => {
  const hole = createServer(() => {})
  let server: ApiServer
  beforeAll(async () => {
    await new Promise<void>((resolve) => hole.listen(0, '127.0.0.1', resolve))
    const { port } = hole.address() as { port: number }
    if (!swallows) await new Promise((resolve) => hole.close(resolve))
    const db = connect({ url: `postgresql://nobody@127.0.0.1:${port}/none`, max: 50 })
    server = await serveApi({ db, port: 0, deadline: 500 })
  })
  afterAll(async () => {
    await server.close()
    hole.close()
  })

  it('makes every route that needs it answer 503, in time', { timeout: 10_000 }, async () => {
    await expectUnavailable(server)
  })

  it('leaves the probe of the process alone', async () => {
    expect((await fetch(`${server.url}/health`)).status).toBe(200)
  })
})

it('a database without the schema is JE011', async () => {
  await using database = await testDatabase({ migrated: false })
  await using server = await serveApi({ db: database.db, port: 0 })
  for (const path of ['/jobs/1', '/ready', '/metrics']) {
    const response = await fetch(server.url + path)
    expect(response.status).toBe(503)
    expect(await response.json()).toMatchObject({ code: 'JE011', hint: 'Run fencepost migrate.' })
  }
})

it('a role that lacks a grant is JE009, and not taken for an old schema', async () => {
  await using database = await testDatabase()
  await using role = await freshRole(database.url)
  await using db = connect({ url: role.url })
  await using server = await serveApi({ db, port: 0 })
  for (const path of ['/jobs/1', '/ready', '/metrics']) {
    const response = await fetch(server.url + path)
    expect(response.status).toBe(403)
    expect(await response.json()).toMatchObject({
      code: 'JE009',
      detail: expect.stringContaining('permission denied for schema fencepost'),
      hint: expect.stringContaining('lacks a grant'),
    })
  }
})

it('a server that is stopping finishes what it has, and takes nothing new', async () => {
  await using database = await testDatabase()
  const { db } = database
  await db.query("select fencepost.configure_type('held')")
  const server = await serveApi({ db, port: 0 })
  const go = new EventEmitter()
  const holder = db.transaction(async (tx) => {
    await tx.query("select from fencepost_private.job_type where type = 'held' for update")
    await once(go, 'on')
  })
  const asked = fetch(`${server.url}/types/held`, {
    method: 'PATCH',
    headers: { 'content-type': 'application/json' },
    body: '{"max_running": 3}',
  })
  await expect.poll(() => waiting(db)).toBe(1)
  const closed = server.close()
  await expect(fetch(`${server.url}/health`)).rejects.toThrow()
  go.emit('on')
  expect((await asked).status).toBe(200)
  await Promise.all([holder, closed])
})

/** How many sessions of this database wait for a lock. */
async function waiting(db: Queryable): Promise<number> {
  const [row] = await db.query<{ count: number }>(
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
  )
  return row?.count ?? 0
}
