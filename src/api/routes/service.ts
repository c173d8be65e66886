import { z } from '@hono/zod-openapi'
import { endpoint } from '../endpoint.ts'
import { ProblemError, problem, problemCatalogue } from '../problem.ts'
import { referencePage } from '../reference/page.ts'
import { problemPage } from '../reference/problem-page.ts'

const HTML = 'text/html; charset=utf-8'
const page = (description: string) => ({
  200: { description, schema: z.string(), type: 'text/html' },
})

const health = endpoint({
  method: 'get',
  path: '/health',
  tag: 'service',
  summary: 'Whether the process lives',
  description: 'Asks nothing of the database: a restart would not mend that.',
  answers: {
    200: { description: 'It does.', schema: z.object({ status: z.literal('ok') }) },
  },
  handle: async () => ({ status: 200, body: { status: 'ok' } }),
})

const ready = endpoint({
  method: 'get',
  path: '/ready',
  tag: 'service',
  summary: 'Whether requests would be answered',
  description: 'True while the database answers and the server is not stopping.',
  answers: {
    200: { description: 'They would.', schema: z.object({ status: z.literal('ready') }) },
  },
  handle: async (_, services) => {
    await services.ready()
    return { status: 200, body: { status: 'ready' } }
  },
})

const metricsAt = (path: string) =>
  endpoint({
    method: 'get',
    path,
    tag: 'service',
    summary: 'Metrics for Prometheus',
    answers: {
      200: { description: 'In the text format.', schema: z.string(), type: 'text/plain' },
    },
    handle: async (_, services) => ({ status: 200, text: await services.metrics() }),
  })

const openapi = endpoint({
  method: 'get',
  path: '/openapi.json',
  tag: 'service',
  summary: 'This API in OpenAPI 3.1',
  answers: { 200: { description: 'The document.', schema: z.looseObject({}) } },
  handle: async (_, services) => ({ status: 200, body: services.openapi() }),
})

const docs = endpoint({
  method: 'get',
  path: '/docs',
  tag: 'service',
  summary: 'This API as a page',
  answers: page('The page.'),
  handle: async (_, services) => ({
    status: 200,
    text: { type: HTML, value: referencePage(services.openapi()) },
  }),
})

const problemDocs = endpoint({
  method: 'get',
  path: '/problems/{code}',
  tag: 'service',
  summary: 'What a code of a problem means',
  params: z.object({ code: z.string().openapi({ example: 'JE003' }) }),
  answers: page('The page.'),
  problems: ['JE002'],
  handle: async ({ params: { code } }) => {
    const entry = problemCatalogue.find((each) => each.code === code)
    if (entry === undefined) {
      throw new ProblemError(
        problem('JE002', `there is no code ${JSON.stringify(code.slice(0, 50))}`, {
          hint: `Known: ${problemCatalogue.map((each) => each.code).join(', ')}.`,
        }),
      )
    }
    return { status: 200, text: { type: HTML, value: problemPage(entry) } }
  },
})

export const serviceRoutes = [
  health,
  ready,
  metricsAt('/metrics'),
  metricsAt('/actuator/prometheus'),
  openapi,
  docs,
  problemDocs,
]
