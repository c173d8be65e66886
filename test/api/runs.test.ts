import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { claim } from '../../src/database/engine.ts'
import { workOff } from '../support/work.ts'
import { type TestApi, testApi } from './client.ts'

let api: TestApi
beforeAll(async () => {
  api = await testApi()
  await publish('diamond', {
    a: { type: 't.a' },
    b: { type: 't.b', after: ['a'] },
    c: { type: 't.c', after: ['a'] },
    d: { type: 't.d', after: ['b', 'c'] },
  })
})
afterAll(() => api.stop())

const MISSING = 999_999_999

async function publish(name: string, tasks: object, more: object = {}): Promise<void> {
  const reply = await api.post('/workflows', { name, definition: { ...more, tasks } })
  expect(reply.status, reply.text).toBe(200)
}

async function start(workflow: string, body: object = {}): Promise<number> {
  const reply = await api.post(`/workflows/${workflow}/runs`, body)
  expect(reply.status, reply.text).toBe(202)
  return reply.body.id
}

async function statusOf(id: number): Promise<string> {
  return (await api.get(`/runs/${id}`)).body.status
}

async function statuses(id: number): Promise<Record<string, string>> {
  const { items } = (await api.get(`/runs/${id}/tasks?limit=200`)).body
  return Object.fromEntries(
    items.map(({ name, status }: { name: string; status: string }) => [name, status]),
  )
}

const good = { 't.a': () => 1, 't.b': () => 'b', 't.c': () => 'c', 't.d': () => ({ done: true }) }

describe('a run', () => {
  it('goes from its start to its output', async () => {
    const id = await start('diamond', { input: { amount: 7 }, tags: ['x'], priority: 8 })
    expect(await statuses(id)).toEqual({ a: 'queued', b: 'pending', c: 'pending', d: 'pending' })
    const order = await workOff(api.database.db, good)
    expect([order[0], order[3]]).toEqual(['t.a', 't.d'])
    expect(await api.get(`/runs/${id}`)).toMatchObject({
      status: 200,
      body: {
        id,
        workflow: 'diamond',
        version: 1,
        status: 'completed',
        input: { amount: 7 },
        output: { d: { done: true } },
        tags: ['x'],
        priority: 8,
        pending_approvals: [],
        signals: [],
      },
    })
  })

  it('is started once for an idempotency key', async () => {
    const body = { input: { n: 1 } }
    const key = { 'idempotency-key': 'once' }
    const first = await api.post('/workflows/diamond/runs', body, key)
    expect(first).toMatchObject({ status: 202, body: { created: true } })
    expect(first.headers.get('location')).toBe(`/runs/${first.body.id}`)
    const again = await api.post('/workflows/diamond/runs', { ...body, idempotency_key: 'once' })
    expect(again).toMatchObject({ status: 200, body: { id: first.body.id, created: false } })
    const other = await api.post('/workflows/diamond/runs', { input: { n: 2 } }, key)
    expect(other).toMatchObject({ status: 422, body: { code: 'JE005' } })
    const both = await api.post('/workflows/diamond/runs', { idempotency_key: 'x' }, key)
    expect(both).toMatchObject({ status: 400, body: { code: 'JE003' } })
  })

  it('is refused when its workflow, version, input or priority is wrong', async () => {
    await publish(
      'strict',
      { a: { type: 't.a' } },
      { input: { type: 'object', required: ['amount'] } },
    )
    const replies = await Promise.all([
      api.post('/workflows/never/runs'),
      api.post('/workflows/diamond/runs', { version: 9 }),
      api.post('/workflows/strict/runs', { input: {} }),
      api.post('/workflows/diamond/runs', { priority: 11 }),
      api.post('/workflows/diamond/runs', { prioriti: 1 }),
    ])
    expect(replies.map(({ body }) => body.code)).toEqual([
      'JE002',
      'JE002',
      'JE003',
      'JE003',
      'JE003',
    ])
    expect(replies[2]?.body.detail).toMatch(/input.amount is required/)
  })

  it('that does not exist is JE002, whatever is asked of it', async () => {
    const replies = await Promise.all([
      api.get(`/runs/${MISSING}`),
      api.get(`/runs/${MISSING}/tasks`),
      api.get(`/runs/${MISSING}/tasks/a/explain`),
      ...['cancel', 'pause', 'resume', 'retry', 'restart', 'signals/x'].map((verb) =>
        api.post(`/runs/${MISSING}/${verb}`),
      ),
      api.post(`/runs/${MISSING}/migrate`, { to_version: 1 }),
    ])
    for (const { status, body } of replies) expect([status, body.code]).toEqual([404, 'JE002'])
  })
})

describe('lists', () => {
  it('narrow runs and go on', async () => {
    await publish('listed', { a: { type: 'listed.a' } })
    const ids = [
      await start('listed', { tags: ['red'] }),
      await start('listed', { tags: ['blue'] }),
    ]
    await workOff(api.database.db, { 'listed.a': () => null })
    ids.push(await start('listed', { tags: ['red'] }))
    const found = async (query: string) =>
      (await api.get(query)).body.items.map(({ id }: { id: number }) => id)
    expect(await found('/workflows/listed/runs')).toEqual(ids.toReversed())
    expect(await found('/runs?workflow=listed&status=completed')).toEqual([ids[1], ids[0]])
    expect(await found('/runs?workflow=listed&tag=red&version=1')).toEqual([ids[2], ids[0]])
    expect(await found('/runs?created_before=2020-01-01')).toEqual([])
    const part = (await api.get('/workflows/listed/runs?limit=2')).body
    expect(await found(`/workflows/listed/runs?limit=2&after=${part.next_cursor}`)).toEqual([
      ids[0],
    ])
  })

  it('refuse filters that make no sense', async () => {
    for (const query of ['status=done', 'version=1', 'created_after=x', 'colour=red', 'after=x']) {
      expect(await api.get(`/runs?${query}`), query).toMatchObject({
        status: 400,
        body: { code: 'JE003' },
      })
    }
    expect(await api.get('/workflows/never/runs')).toMatchObject({ status: 404 })
    expect(await api.get('/runs/x')).toMatchObject({ status: 400 })
  })

  it('show tasks, and the items of a map', async () => {
    const over = '$.input.xs'
    await publish('mapped', {
      m: { kind: 'map', type: 'mapped.item', over, max_parallel: 2 },
      z: { type: 'mapped.z', after: ['m'] },
    })
    const id = await start('mapped', { input: { xs: [1, 2, 3] } })
    const [map, z] = (await api.get(`/runs/${id}/tasks`)).body.items
    expect(map).toMatchObject({ run_id: id, name: 'm', kind: 'map', status: 'waiting', items: 3 })
    expect(z).toMatchObject({ name: 'z', status: 'pending', after: ['m'] })
    const list = `/runs/${id}/tasks?parent_task_id=${map.id}`
    const part = (await api.get(`${list}&limit=2`)).body
    expect(part.items.map(({ item }: { item: number }) => item)).toEqual([0, 1])
    const rest = (await api.get(`${list}&limit=2&after=${part.next_cursor}`)).body
    expect(rest.items).toMatchObject([{ item: 2, kind: 'item', parent_task_id: map.id }])
    expect((await api.get(`/runs/${id}/tasks?status=waiting`)).body.items).toHaveLength(1)
    expect(await api.get(`/runs/${id}/tasks?parent_task_id=${MISSING}`)).toMatchObject({
      status: 404,
    })
    expect(await api.get(`/runs/${id}/tasks?status=busy`)).toMatchObject({ status: 400 })
  })

  it('explain why a task is not running', async () => {
    const id = await start('diamond')
    const { status, body } = await api.get(`/runs/${id}/tasks/d/explain`)
    expect(status).toBe(200)
    expect(body.items.map(({ reason }: { reason: string }) => reason)).toEqual([
      'it waits for b',
      'it waits for c',
    ])
    expect(await api.get(`/runs/${id}/tasks/z/explain`)).toMatchObject({
      status: 404,
      body: { code: 'JE002' },
    })
    await workOff(api.database.db, good)
  })
})

describe('control', () => {
  it('pauses and resumes', async () => {
    const id = await start('diamond')
    expect(await api.post(`/runs/${id}/pause`, { reason: 'fire' })).toMatchObject({
      status: 200,
      body: { id, status: 'paused', reason: 'fire' },
    })
    expect(await claim(api.database.db, { worker: 'w', types: ['t.a'] })).toEqual([])
    expect(await api.post(`/runs/${id}/resume`)).toMatchObject({
      status: 200,
      body: { status: 'running', reason: null },
    })
    expect(await api.post(`/runs/${id}/resume`)).toMatchObject({
      status: 409,
      body: { code: 'JE004' },
    })
    await workOff(api.database.db, good)
    expect(await api.post(`/runs/${id}/pause`)).toMatchObject({
      status: 409,
      body: { code: 'JE004' },
    })
  })

  it('cancels', async () => {
    const id = await start('diamond')
    expect(await api.post(`/runs/${id}/cancel`, { reason: 'enough' })).toMatchObject({
      status: 200,
      body: { status: 'cancelled', reason: 'enough' },
    })
    expect(new Set(Object.values(await statuses(id)))).toEqual(new Set(['cancelled']))
    const done = await start('diamond')
    await workOff(api.database.db, good)
    expect(await api.post(`/runs/${done}/cancel`)).toMatchObject({
      status: 409,
      body: { code: 'JE004' },
    })
  })

  it('retries what failed, and replays one task', async () => {
    const bad = { ...good, 't.b': () => new Error('no b'), 't.c': () => new Error('no c') }
    const id = await start('diamond')
    await workOff(api.database.db, bad)
    expect(await statusOf(id)).toBe('failed')
    expect(await api.post(`/runs/${id}/retry`)).toMatchObject({
      status: 202,
      body: { id, replayed: 2 },
    })
    await workOff(api.database.db, { ...good, 't.c': () => new Error('no c') })
    const [failed] = (await api.get(`/runs/${id}/tasks?status=failed`)).body.items
    expect(failed).toMatchObject({ name: 'c', error: expect.stringMatching('no c') })
    expect(await api.get(`/tasks/${failed.id}`)).toMatchObject({
      status: 200,
      body: { id: failed.id, run_id: id, name: 'c', status: 'failed' },
    })
    expect(await api.post(`/tasks/${failed.id}/replay`)).toMatchObject({
      status: 202,
      body: { name: 'c', status: 'queued' },
    })
    await workOff(api.database.db, good)
    expect(await statusOf(id)).toBe('completed')
    const { items } = (await api.get(`/tasks/${failed.id}/attempts`)).body
    expect(items.map(({ outcome }: { outcome: string }) => outcome)).toEqual([
      'completed',
      'failed',
      'failed',
    ])
    for (const path of [`/runs/${id}/retry`, `/tasks/${failed.id}/replay`]) {
      expect(await api.post(path)).toMatchObject({ status: 409, body: { code: 'JE004' } })
    }
  })

  it('restarts from a task', async () => {
    const id = await start('diamond', { input: { n: 1 } })
    await workOff(api.database.db, good)
    const reply = await api.post(`/runs/${id}/restart`, { from_task: 'b' })
    expect(reply).toMatchObject({ status: 202, body: { restarted_from: id } })
    expect(await statuses(reply.body.id)).toEqual({
      a: 'completed',
      b: 'queued',
      c: 'completed',
      d: 'pending',
    })
    expect((await api.get(`/runs/${reply.body.id}`)).body).toMatchObject({
      restarted_from: id,
      input: { n: 1 },
    })
    expect(await api.post(`/runs/${id}/restart`, { from_task: 'z' })).toMatchObject({
      status: 400,
      body: { code: 'JE003' },
    })
    expect(await api.post(`/runs/${reply.body.id}/restart`)).toMatchObject({
      status: 409,
      body: { code: 'JE004' },
    })
    await workOff(api.database.db, good)
  })

  it('moves a run to another version', async () => {
    await publish('moving', { a: { type: 'moving.a' } })
    const id = await start('moving')
    await publish('moving', { a: { type: 'moving.a' }, b: { type: 'moving.b', after: ['a'] } })
    const change = { items: [{ task: 'b', change: 'added' }] }
    const told = await api.post(`/runs/${id}/migrate`, { to_version: 2, dry_run: true })
    expect(told).toMatchObject({ status: 200, body: { ...change, dry_run: true } })
    expect((await api.get(`/runs/${id}`)).body.version).toBe(1)
    const done = await api.post(`/runs/${id}/migrate`, { to_version: 2 })
    expect(done.body).toEqual({ ...change, dry_run: false })
    expect(await statuses(id)).toEqual({ a: 'queued', b: 'pending' })
    expect(await api.post(`/runs/${id}/migrate`, {})).toMatchObject({ status: 400 })
    await workOff(api.database.db, { 'moving.a': () => 1, 'moving.b': () => 2 })
    expect(await api.post(`/runs/${id}/migrate`, { to_version: 1 })).toMatchObject({
      status: 409,
      body: { code: 'JE004' },
    })
  })

  it('sends signals', async () => {
    await publish('signalled', { paid: { kind: 'signal', signal: 'payment/settled' } })
    const id = await start('signalled')
    expect(await statusOf(id)).toBe('waiting')
    const sent = await api.post(`/runs/${id}/signals/payment%2Fsettled`, { payload: { ok: 1 } })
    expect(sent).toMatchObject({ status: 202, body: { run_id: id, name: 'payment/settled' } })
    const { body } = await api.get(`/runs/${id}`)
    expect(body).toMatchObject({
      status: 'completed',
      output: { paid: { ok: 1 } },
      signals: [{ id: sent.body.id, name: 'payment/settled', payload: { ok: 1 } }],
    })
    expect(await api.post(`/runs/${id}/signals/late`)).toMatchObject({
      status: 409,
      body: { code: 'JE004' },
    })
  })
})
