import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { claim, fail, registerWorker, stopWorker } from '../../src/database/engine.ts'
import { type TestApi, testApi } from './client.ts'

let api: TestApi
beforeAll(async () => {
  api = await testApi()
})
afterAll(() => api.stop())

const MISSING = 999_999_999

async function dead(type: string, error: string): Promise<number> {
  const { id } = (await api.post('/jobs', { type, payload: { of: type } })).body
  const [job] = await claim(api.database.db, { worker: 'w', types: [type] })
  await fail(api.database.db, id, job?.token ?? 0, { error, permanent: true })
  return id
}

describe('types', () => {
  it('are changed, given back and listed', async () => {
    const settings = { max_running: 3, timeout: '1 minute', payload_check: '$.to like_regex "@"' }
    const changed = await api.send('PATCH', '/types/mail', settings)
    expect(changed).toMatchObject({
      status: 200,
      body: { type: 'mail', max_running: 3, timeout: '00:01:00', paused: false },
    })
    expect(changed.body.overridden).toEqual(['max_running', 'payload_check', 'timeout'])
    const refused = await api.post('/jobs', { type: 'mail', payload: { to: 'nobody' } })
    expect(refused).toMatchObject({ status: 422, body: { code: 'JE006' } })
    const back = await api.send('PATCH', '/types/mail', { reset: ['timeout'], max_running: 0 })
    expect(back.body).toMatchObject({ timeout: null, max_running: null })
    const { body } = await api.get('/types')
    expect(body.items.map(({ type }: { type: string }) => type)).toContain('mail')
    expect((await api.get('/types/mail')).body).toEqual(back.body)
  })

  it('are paused and resumed', async () => {
    await api.post('/jobs', { type: 'halt' })
    expect(
      (await api.send('PATCH', '/types/halt', { paused: true, reason: 'fire' })).body.paused,
    ).toBe(true)
    expect(await claim(api.database.db, { worker: 'w', types: ['halt'] })).toEqual([])
    expect((await api.send('PATCH', '/types/halt', { paused: false })).body.paused).toBe(false)
    expect(await claim(api.database.db, { worker: 'w', types: ['halt'] })).toHaveLength(1)
  })

  it('change all at once or not at all', async () => {
    const reply = await api.send('PATCH', '/types/atomic', { paused: true, max_attempts: 0 })
    expect(reply).toMatchObject({ status: 400, body: { code: 'JE003' } })
    expect((await api.get('/types/atomic')).status).toBe(404)
  })

  it.each([
    [{ max_runing: 1 }, /unknown setting "max_runing"/],
    [{ max_running: -1 }, /max_running/],
    [{ max_running: null }, /max_running/],
    [{ timeout: 'soon' }, /timeout|interval/],
    [{ payload_check: '$.(' }, /payload_check/],
    [{ backoff_jitter: 2 }, /backoff_jitter/],
    [{ paused: 'yes' }, /paused/],
    [{ reset: ['colour'] }, /colour/],
  ])('refuse %j', async (settings, detail) => {
    const reply = await api.send('PATCH', '/types/mail', settings)
    expect(reply).toMatchObject({ status: 400, body: { code: 'JE003' } })
    expect(`${reply.body.detail} ${reply.body.hint}`).toMatch(detail)
  })

  it('are refused by a malformed name, and unknown when nobody used them', async () => {
    expect(await api.send('PATCH', '/types/a%20b', { max_running: 1 })).toMatchObject({
      status: 400,
    })
    expect(await api.get('/types/never')).toMatchObject({ status: 404, body: { code: 'JE002' } })
    expect(await api.get('/types?all=1')).toMatchObject({ status: 400 })
  })
})

describe('stats', () => {
  it('tell depths by type', async () => {
    await api.post('/jobs', [{ type: 'depth' }, { type: 'depth' }, { type: 'depth', delay: '1h' }])
    const { body } = await api.get('/stats?type=depth')
    expect(body.items).toMatchObject([
      { type: 'depth', ready: 2, delayed: 1, pending: 3, running: 0 },
    ])
    expect(body.items[0].oldest_ready_seconds).toBeGreaterThanOrEqual(0)
  })

  it('know no type that does not exist', async () => {
    expect(await api.get('/stats?type=never')).toMatchObject({
      status: 404,
      body: { code: 'JE002' },
    })
    expect(await api.get('/stats?tpye=depth')).toMatchObject({
      status: 400,
      body: { code: 'JE003' },
    })
  })
})

describe('dead letters', () => {
  it('are listed and shown', async () => {
    const ids = [await dead('post', 'no address'), await dead('post', 'no stamp')]
    const first = await api.get('/dead-letter?type=post&limit=1')
    expect(first.body.items).toMatchObject([
      { job_id: ids[1], final_error: 'no stamp', attempts: 1 },
    ])
    const rest = await api.get(`/dead-letter?type=post&limit=1&after=${first.body.next_cursor}`)
    expect(rest.body.items[0].job_id).toBe(ids[0])
    expect(rest.body.next_cursor).toBeNull()
    const { body } = await api.get(`/dead-letter/${ids[0]}`)
    expect(body).toMatchObject({ job_id: ids[0], type: 'post', payload: { of: 'post' } })
  })

  it('are replayed and discarded, one by one', async () => {
    const [again, gone] = [await dead('one', 'x'), await dead('one', 'x')]
    expect(await api.post(`/dead-letter/${again}/replay`)).toMatchObject({
      status: 202,
      body: { job_id: again, status: 'pending' },
    })
    const discarded = await api.post(`/dead-letter/${gone}/discard`, { reason: 'hopeless' })
    expect(discarded).toMatchObject({ status: 200, body: { job_id: gone, status: 'discarded' } })
    for (const verb of ['replay', 'discard']) {
      const late = await api.post(`/dead-letter/${gone}/${verb}`)
      expect(late).toMatchObject({ status: 409, body: { code: 'JE004' } })
      const none = await api.post(`/dead-letter/${MISSING}/${verb}`)
      expect(none).toMatchObject({ status: 404, body: { code: 'JE002' } })
    }
    expect(await api.get(`/dead-letter/${again}`)).toMatchObject({
      status: 404,
      body: { code: 'JE002' },
    })
    expect(await api.get(`/dead-letter/${MISSING}`)).toMatchObject({ status: 404 })
  })

  it.each(['replay', 'discard'])('are counted, then %sed, when they match', async (verb) => {
    const type = `many-${verb}`
    for (const error of ['timeout: a', 'timeout: b', 'refused']) await dead(type, error)
    const filter = { type, error: 'TIMEOUT' }
    const counted = await api.post(`/dead-letter/${verb}`, { filter })
    expect(counted).toMatchObject({ status: 200, body: { matched: 2, dry_run: true } })
    const done = await api.post(`/dead-letter/${verb}`, { filter, dry_run: false })
    expect(done.body).toEqual({ matched: 2, dry_run: false })
    expect((await api.get(`/dead-letter?type=${type}`)).body.items).toHaveLength(1)
  })

  it.each(['replay', 'discard'])('%s asks for a filter that makes sense', async (verb) => {
    for (const body of [
      {},
      { filter: null },
      { filter: { typ: 'x' } },
      { filter: { error_matches: '(' } },
      { filter: { failed_after: 'never' } },
      { filter: {}, max: 0 },
      { filter: {}, dryrun: false },
    ]) {
      const reply = await api.post(`/dead-letter/${verb}`, body)
      expect(reply, JSON.stringify(body)).toMatchObject({ status: 400, body: { code: 'JE003' } })
    }
  })

  it('refuse options that do not exist', async () => {
    expect(await api.get('/dead-letter?limit=x')).toMatchObject({ status: 400 })
    expect(await api.get('/dead-letter?after=zzz')).toMatchObject({ status: 400 })
    expect(await api.get('/dead-letter/zzz')).toMatchObject({ status: 400 })
  })
})

describe('workers', () => {
  it('are listed with what they hold, and drained', async () => {
    const { db } = api.database
    const id = await registerWorker(db, { name: 'crane', hostname: 'dock', types: ['lift'] })
    await api.post('/jobs', { type: 'lift' })
    await claim(db, { worker: 'crane', types: ['lift'] })
    const { body } = await api.get('/workers?status=active')
    const listed = body.items.find((each: { id: number }) => each.id === id)
    expect(listed).toMatchObject({
      name: 'crane',
      hostname: 'dock',
      types: ['lift'],
      active_jobs: 1,
    })
    const one = await api.get(`/workers/${id}`)
    expect(one.body.leases).toMatchObject([{ worker_id: id, token: 1 }])
    expect(await api.post(`/workers/${id}/drain`)).toMatchObject({
      status: 202,
      body: { id, status: 'draining' },
    })
    expect((await api.get('/workers?status=draining')).body.items).toHaveLength(1)
    await stopWorker(db, id)
    expect(await api.post(`/workers/${id}/drain`)).toMatchObject({
      status: 409,
      body: { code: 'JE004' },
    })
  })

  it('are paged, newest first', async () => {
    const { db } = api.database
    const ids = [await registerWorker(db, { name: 'a' }), await registerWorker(db, { name: 'b' })]
    const first = await api.get('/workers?limit=1')
    expect(first.body.items[0].id).toBe(ids[1])
    const next = await api.get(`/workers?limit=1&after=${first.body.next_cursor}`)
    expect(next.body.items[0].id).toBe(ids[0])
  })

  it('are refused when they do not exist or the question makes no sense', async () => {
    expect(await api.get(`/workers/${MISSING}`)).toMatchObject({
      status: 404,
      body: { code: 'JE002' },
    })
    expect(await api.post(`/workers/${MISSING}/drain`)).toMatchObject({ status: 404 })
    expect(await api.post('/workers/99999999999999/drain')).toMatchObject({ status: 400 })
    expect(await api.get('/workers?status=busy')).toMatchObject({
      status: 400,
      body: { code: 'JE003' },
    })
  })
})
