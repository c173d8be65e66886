import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { endpoints } from '../../src/api/endpoints.ts'
import { problemCatalogue } from '../../src/api/problem.ts'
import {
  claim,
  complete,
  createConsumer,
  parkEvent,
  readEvents,
} from '../../src/database/engine.ts'
import { engineMetrics } from '../../src/telemetry/metrics.ts'
import { moveClock, restoreClock } from '../support/clock.ts'
import { type TestDatabase, testDatabase } from '../support/server.ts'
import { type TestApi, testApi } from './client.ts'

let database: TestDatabase
let api: TestApi
beforeAll(async () => {
  database = await testDatabase()
  const { db } = database
  api = await testApi({ database, metrics: engineMetrics({ db, maxAge: 0 }).text })
})
afterAll(() => api.stop())

describe('probes', () => {
  it('answer', async () => {
    expect(await api.get('/health')).toMatchObject({ status: 200, body: { status: 'ok' } })
    expect(await api.get('/ready')).toMatchObject({ status: 200, body: { status: 'ready' } })
  })
})

describe('metrics', () => {
  it('tell what happened, from counters', async () => {
    const { db } = database
    await api.post('/jobs', [
      { type: 'counted' },
      { type: 'counted' },
      { type: 'counted', delay: '1h' },
    ])
    const [job] = await claim(db, { worker: 'w', types: ['counted'] })
    await complete(db, job?.job_id ?? 0, job?.token ?? 0)
    await db.query('select fencepost.maintain()')
    for (const path of ['/metrics', '/actuator/prometheus']) {
      const { status, headers, text } = await api.get(path)
      expect(status).toBe(200)
      expect(headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
      const lines = text.split('\n')
      expect(lines).toContain('fencepost_jobs{type="counted",status="ready"} 1')
      expect(lines).toContain('fencepost_jobs{type="counted",status="delayed"} 1')
      expect(lines).toContain('fencepost_jobs_enqueued_total{type="counted"} 3')
      expect(lines).toContain('fencepost_attempts_total{type="counted",outcome="completed"} 1')
      expect(lines).toContain('fencepost_wait_seconds_count{type="counted"} 1')
      expect(lines).toContain('fencepost_run_seconds_bucket{type="counted",le="+Inf"} 1')
      expect(lines).toContain('fencepost_workers{status="active"} 1')
      expect(text).toMatch(/^fencepost_snapshot_age_seconds \d/m)
      expect(text).toMatch(/^process_cpu_seconds_total /m)
    }
  })

  it('tell how far behind consumers of the log are', async () => {
    const { db } = database
    await createConsumer(db, { name: 'metered', start: 'beginning', max_lag: '1 hour' })
    const [event] = await readEvents(db, { consumer: 'metered', max: 1 })
    await parkEvent(db, 'metered', event?.position ?? '', 'too large')
    const lines = (await api.get('/metrics')).text.split('\n')
    expect(lines).toContain('fencepost_consumer_lag{consumer="metered"} 1')
    expect(lines).toContain('fencepost_consumer_parked{consumer="metered"} 1')
    expect(lines).toContain('fencepost_consumers_expired 0')
    expect(
      lines.some((line) =>
        /^fencepost_consumer_lag_seconds\{consumer="metered"\} \d{1,2}\.\d/.test(line),
      ),
    ).toBe(true)
    await moveClock(db, '2 hours')
    await db.query('select fencepost_private.expire_consumers()')
    const late = (await api.get('/metrics')).text
    expect(late).toContain('fencepost_consumers_expired 1\n')
    expect(late).toMatch(/^fencepost_consumer_lag_seconds\{consumer="metered"\} 7\d\d\d/m)
    await restoreClock(db)
  })

  it('have buckets that only grow, and names that Prometheus takes', async () => {
    const { text } = await api.get('/metrics')
    const buckets = [
      ...text.matchAll(/^fencepost_run_seconds_bucket\{type="counted",le="[^"]+"\} (\d+)$/gm),
    ]
    const counts = buckets.map(([, count]) => Number(count))
    expect(counts.length).toBeGreaterThan(10)
    expect(counts).toEqual(counts.toSorted((a, b) => a - b))
    for (const [, name, type] of text.matchAll(/^# TYPE (fencepost_\w+) (\w+)$/gm)) {
      expect(name?.endsWith('_total'), name).toBe(type === 'counter')
    }
  })
})

describe('the reference', () => {
  it('describes every route in OpenAPI 3.1', async () => {
    const { status, body } = await api.get('/openapi.json')
    expect(status).toBe(200)
    expect(body.openapi).toBe('3.1.0')
    for (const { method, path } of endpoints) {
      const operation = body.paths[path]?.[method]
      expect(operation, `${method} ${path}`).toMatchObject({ summary: expect.any(String) })
      expect(Object.keys(operation.responses)).toEqual(
        expect.arrayContaining([expect.stringMatching(/^2/), expect.stringMatching(/^4/)]),
      )
    }
    const ids = Object.values<Record<string, { operationId: string }>>(body.paths).flatMap((each) =>
      Object.values(each).map(({ operationId }) => operationId),
    )
    expect(new Set(ids).size).toBe(ids.length)
  })

  it('resolves every reference within the document', async () => {
    const { body, text } = await api.get('/openapi.json')
    for (const [, name] of text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)) {
      expect(body.components.schemas, name).toHaveProperty(name ?? '')
    }
  })

  it('is a page that needs nothing from elsewhere', async () => {
    const { status, text, headers } = await api.get('/docs')
    expect(status).toBe(200)
    expect(headers.get('content-type')).toMatch(/^text\/html/)
    expect(text).not.toMatch(/(?:src|href)="https?:/)
    for (const { method, path } of endpoints) {
      expect(text).toContain(`<span class="route">${method.toUpperCase()} ${path}</span>`)
    }
  })

  it('has a page for each code', async () => {
    for (const { code, meaning } of problemCatalogue) {
      const { status, text } = await api.get(`/problems/${code}`)
      expect(status).toBe(200)
      expect(text).toContain(meaning.slice(0, 30))
    }
    expect(await api.get('/problems/JE999')).toMatchObject({ status: 404, body: { code: 'JE002' } })
  })
})

it('refuses options that these routes do not have', async () => {
  for (const path of [
    '/health',
    '/ready',
    '/metrics',
    '/actuator/prometheus',
    '/openapi.json',
    '/docs',
  ]) {
    expect(await api.get(`${path}?pretty=1`)).toMatchObject({
      status: 400,
      body: { code: 'JE003' },
    })
  }
})
