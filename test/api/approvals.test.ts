import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { claim } from '../../src/database/engine.ts'
import { workOff } from '../support/work.ts'
import { type TestApi, testApi } from './client.ts'

let api: TestApi
beforeAll(async () => {
  api = await testApi()
  const tasks = {
    ask: { kind: 'approval', expires_after: '3 days' },
    act: { type: 'gated.act', after: ['ask'] },
  }
  await api.post('/workflows', { name: 'gated', definition: { tasks } })
})
afterAll(() => api.stop())

const MISSING = 999_999_999

async function start(): Promise<number> {
  return (await api.post('/workflows/gated/runs')).body.id
}

async function pending(run: number) {
  return (await api.get(`/approvals?run_id=${run}&status=pending`)).body.items[0]
}

async function taskOf(run: number, name: string) {
  const { items } = (await api.get(`/runs/${run}/tasks`)).body
  return items.find((each: { name: string }) => each.name === name)
}

describe('an approval', () => {
  it('is decided once, and its decision is the output of its task', async () => {
    const run = await start()
    const { id } = await pending(run)
    expect((await api.get(`/runs/${run}`)).body.pending_approvals).toMatchObject([{ id }])
    const decision = { decided_by: 'ada', comment: 'fine', data: { limit: 3 } }
    const decided = await api.post(`/approvals/${id}/approve`, decision)
    expect(decided).toMatchObject({ status: 200, body: { id, status: 'approved', ...decision } })
    expect(await api.get(`/approvals/${id}`)).toMatchObject({ status: 200, body: decided.body })
    expect((await taskOf(run, 'ask')).output).toMatchObject({ approved: true, decided_by: 'ada' })
    for (const verb of ['approve', 'reject']) {
      expect(await api.post(`/approvals/${id}/${verb}`)).toMatchObject({
        status: 409,
        body: { code: 'JE004' },
      })
    }
    expect(await workOff(api.database.db, { 'gated.act': () => 1 })).toEqual(['gated.act'])
  })

  it('that is rejected fails its task', async () => {
    const run = await start()
    const { id } = await pending(run)
    const rejected = await api.post(`/approvals/${id}/reject`, { comment: 'no' })
    expect(rejected).toMatchObject({ status: 200, body: { status: 'rejected', comment: 'no' } })
    expect(await taskOf(run, 'ask')).toMatchObject({
      status: 'failed',
      error: expect.stringMatching('no'),
    })
  })

  it('that does not exist is JE002', async () => {
    const replies = await Promise.all([
      api.get(`/approvals/${MISSING}`),
      api.post(`/approvals/${MISSING}/approve`),
      api.post(`/approvals/${MISSING}/reject`),
      api.post(`/tasks/${MISSING}/approval`),
      api.post(`/tasks/${MISSING}/replay`),
      api.get(`/tasks/${MISSING}`),
      api.get(`/tasks/${MISSING}/attempts`),
    ])
    for (const { status, body } of replies) expect([status, body.code]).toEqual([404, 'JE002'])
  })
})

it('approvals are listed in parts', async () => {
  const runs = [await start(), await start(), await start()]
  const first = (await api.get('/approvals?workflow=gated&status=pending&limit=2')).body
  expect(first.items.map((each: { run_id: number }) => each.run_id)).toEqual([runs[2], runs[1]])
  const next = await api.get(
    `/approvals?workflow=gated&status=pending&limit=1&after=${first.next_cursor}`,
  )
  expect(next.body.items).toMatchObject([{ run_id: runs[0], task: 'ask', is_gate: false }])
  expect((await api.get('/approvals?workflow=never')).body.items).toEqual([])
  for (const query of ['status=open', 'run_id=x', 'task=ask', 'after=x']) {
    expect(await api.get(`/approvals?${query}`), query).toMatchObject({
      status: 400,
      body: { code: 'JE003' },
    })
  }
})

describe('a gate', () => {
  it('holds a task that has not begun', async () => {
    await api.post('/workflows', {
      name: 'free',
      definition: { tasks: { act: { type: 'free.act' } } },
    })
    const run = (await api.post('/workflows/free/runs')).body.id
    const task = await taskOf(run, 'act')
    const asked = await api.post(`/tasks/${task.id}/approval`, {
      reason: 'it is friday',
      expires_after: '1 day',
    })
    expect(asked).toMatchObject({ status: 202, body: { task_id: task.id } })
    expect(asked.headers.get('location')).toBe(`/approvals/${asked.body.id}`)
    expect(await claim(api.database.db, { worker: 'w', types: ['free.act'] })).toEqual([])
    expect(await api.post(`/tasks/${task.id}/approval`)).toMatchObject({
      status: 409,
      body: { code: 'JE004' },
    })
    const gate = (await api.get(`/approvals/${asked.body.id}`)).body
    expect(gate).toMatchObject({ is_gate: true, reason: 'it is friday', task: 'act' })
    await api.post(`/approvals/${asked.body.id}/approve`)
    expect(await workOff(api.database.db, { 'free.act': () => 1 })).toEqual(['free.act'])
  })

  it('is refused with an interval that is none', async () => {
    const task = await taskOf(await start(), 'act')
    for (const expires_after of ['soon', '-1 day']) {
      expect(await api.post(`/tasks/${task.id}/approval`, { expires_after })).toMatchObject({
        status: 400,
        body: { code: 'JE003' },
      })
    }
  })
})
