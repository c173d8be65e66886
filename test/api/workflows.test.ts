import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestApi, testApi } from './client.ts'

let api: TestApi
beforeAll(async () => {
  api = await testApi()
})
afterAll(() => api.stop())

const diamond = {
  tasks: {
    a: { type: 't.a' },
    b: { type: 't.b', after: ['a'] },
    c: { type: 't.c', after: ['a'] },
    d: { type: 't.d', after: ['b', 'c'] },
  },
}

describe('publishing', () => {
  it('answers with the version, and with the same for an equal definition', async () => {
    const first = await api.post('/workflows', { name: 'order/new', definition: diamond })
    expect(first).toMatchObject({ status: 200, body: { workflow: 'order/new', version: 1 } })
    expect(first.headers.get('location')).toBe('/workflows/order%2Fnew/versions/1')
    const again = await api.post('/workflows', { name: 'order/new', definition: diamond })
    expect(again.body).toEqual(first.body)
    const changed = { tasks: { ...diamond.tasks, e: { type: 't.e', after: ['d'] } } }
    const second = await api.post('/workflows', { name: 'order/new', definition: changed })
    expect(second.body.version).toBe(2)
  })

  it.each([
    [{ tasks: { a: { type: 't', aftr: [] } } }, '#/definition/tasks/a', /unknown key 'aftr'/],
    [
      { tasks: { a: { type: 't' }, b: { type: 't', after: ['a', 'x'] } } },
      '#/definition/tasks/b/after/1',
      /waits for 'x'/,
    ],
    [
      { tasks: { a: { type: 't', after: ['b'] }, b: { type: 't', after: ['a'] } } },
      /#\/definition\/tasks\/[ab]\/after/,
      /cycle: (a -> b -> a|b -> a -> b)/,
    ],
    [{ tasks: { a: { type: 't', when: '$.(' } } }, '#/definition/tasks/a/when', /path/],
    [{ tasks: {} }, '#/definition/tasks', /needs tasks/],
    [{ ...diamond, on_failure: 'undo' }, '#/definition/on_failure', /must be one of/],
    [{ task: {} }, undefined, /unknown key 'task'/],
  ])('refuses %j and points at the place', async (definition, pointer, detail) => {
    const reply = await api.post('/workflows', { name: 'bad', definition })
    expect(reply).toMatchObject({ status: 422, body: { code: 'JE008' } })
    expect(reply.body.detail).toMatch(detail)
    if (pointer instanceof RegExp) expect(reply.body.pointer).toMatch(pointer)
    else expect(reply.body.pointer).toBe(pointer)
    expect((await api.get('/workflows/bad')).status).toBe(404)
  })

  it('refuses what is no publication', async () => {
    const replies = await Promise.all([
      api.post('/workflows', { name: 'x' }),
      api.post('/workflows', { name: 'x', definition: [] }),
      api.post('/workflows', { name: 'a b', definition: diamond }),
      api.post('/workflows', { name: 'x', definition: diamond, version: 2 }),
    ])
    expect(replies.map(({ status, body }) => [status, body.code])).toEqual(
      replies.map(() => [400, 'JE003']),
    )
  })
})

describe('looking', () => {
  beforeAll(async () => {
    await api.post('/workflows', { name: 'look.a', definition: diamond })
    const { d: _, ...rest } = diamond.tasks
    const other = { tasks: { ...rest, b: { type: 't.b2', after: ['a'] } } }
    await api.post('/workflows', { name: 'look.b', definition: diamond })
    await api.post('/workflows', { name: 'look.b', definition: other })
  })

  it('lists workflows by name, in parts', async () => {
    const { items, next_cursor } = (await api.get('/workflows?limit=1')).body
    const rest = (await api.get(`/workflows?after=${next_cursor}`)).body
    const names = [...items, ...rest.items].map(({ name }: { name: string }) => name)
    expect(names).toEqual([...names].sort())
    expect(names).toEqual(expect.arrayContaining(['look.a', 'look.b']))
    expect(rest.next_cursor).toBeNull()
    expect((await api.get('/workflows?after=x')).status).toBe(400)
  })

  it('shows a workflow with its latest definition', async () => {
    expect(await api.get('/workflows/look.b')).toMatchObject({
      status: 200,
      body: {
        name: 'look.b',
        latest_version: 2,
        tasks: 3,
        definition: { tasks: { b: { type: 't.b2' } } },
      },
    })
    expect(await api.get('/workflows/look.z')).toMatchObject({
      status: 404,
      body: { code: 'JE002', hint: 'Publish it with POST /workflows.' },
    })
  })

  it('changes how long finished runs are kept', async () => {
    const path = '/workflows/look.b'
    expect(await api.send('PATCH', path, { keep_finished: '30 days' })).toMatchObject({
      status: 200,
      body: { name: 'look.b', latest_version: 2, keep_finished: '30 days' },
    })
    expect(await api.send('PATCH', path, { keep_finished: '-1 day' })).toMatchObject({
      status: 400,
      body: { code: 'JE003' },
    })
    expect(await api.send('PATCH', '/workflows/look.z', {})).toMatchObject({
      status: 404,
      body: { code: 'JE002' },
    })
  })

  it('lists and shows versions', async () => {
    const first = await api.get('/workflows/look.b/versions?limit=1')
    expect(first.body.items).toMatchObject([{ workflow: 'look.b', version: 2, tasks: 3 }])
    const rest = await api.get(`/workflows/look.b/versions?after=${first.body.next_cursor}`)
    expect(rest.body).toMatchObject({ items: [{ version: 1 }], next_cursor: null })
    expect(await api.get('/workflows/look.b/versions/1')).toMatchObject({
      status: 200,
      body: { version: 1, definition: diamond },
    })
    expect(await api.get('/workflows/look.b/versions/3')).toMatchObject({
      status: 404,
      body: { code: 'JE002', hint: 'Its latest is 2.' },
    })
    expect(await api.get('/workflows/look.z/versions')).toMatchObject({ status: 404 })
  })

  it('compares versions', async () => {
    const { status, body } = await api.get('/workflows/look.b/diff?from=1&to=2')
    expect(status).toBe(200)
    expect(body.items).toEqual([
      { task: 'b', key: 'type', before: 't.b', after: 't.b2' },
      { task: 'd', key: 'after', before: ['b', 'c'], after: null },
      { task: 'd', key: 'type', before: 't.d', after: null },
    ])
    expect(await api.get('/workflows/look.b/diff?from=1&to=9')).toMatchObject({ status: 404 })
    expect(await api.get('/workflows/look.b/diff?from=1')).toMatchObject({ status: 400 })
  })
})
