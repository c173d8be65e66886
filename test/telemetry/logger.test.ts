import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { createLogger, type Logger, type LoggerOptions } from '../../src/index.ts'

/** What a logger writes in one turn of the event loop, line by line. */
async function written(use: (log: Logger) => void, options: LoggerOptions = {}) {
  const chunks: string[] = []
  const destination = { write: (text: string) => chunks.push(text) }
  use(createLogger({ ...options, destination }))
  await new Promise(setImmediate)
  const lines = chunks.join('').split('\n').slice(0, -1)
  return { chunks, lines: lines.map((line) => JSON.parse(line)) }
}

it('writes one JSON object a line, as pino does', async () => {
  const before = Date.now()
  const { chunks, lines } = await written((log) => {
    log.info({ job: 1, text: 'a "b"\n' }, 'first')
    log.child({ worker: 'w' }).child({ type: 't' }).error({ n: null, left: undefined }, 'second')
    log.warn({})
    log.debug({}, 'not at this level')
  })
  expect(chunks).toHaveLength(1)
  expect(lines).toEqual([
    { level: 30, time: expect.any(Number), job: 1, text: 'a "b"\n', msg: 'first' },
    { level: 50, time: expect.any(Number), worker: 'w', type: 't', n: null, msg: 'second' },
    { level: 40, time: expect.any(Number) },
  ])
  expect(lines[0].time).toBeGreaterThanOrEqual(before)
})

it('writes errors with their stack, and something for what is not JSON', async () => {
  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  const { lines } = await written((log) => {
    log.error({ error: Object.assign(new TypeError('no'), { code: 'E1' }), cycle, big: 1n }, 'odd')
  })
  expect(lines[0]).toMatchObject({
    error: {
      type: 'TypeError',
      message: 'no',
      code: 'E1',
      stack: expect.stringMatching(/TypeError: no/),
    },
    cycle: '[object Object]',
    big: '1',
  })
})

it('keeps to its level', async () => {
  const use = (log: Logger) => {
    log.debug({}, 'debug')
    log.warn({}, 'warn')
  }
  expect((await written(use, { level: 'debug' })).lines).toHaveLength(2)
  expect((await written(use, { level: 'error' })).lines).toHaveLength(0)
})

it('loses no line of a process that exits at once', () => {
  const script = `import { createLogger } from 'fencepost'; createLogger().info({}, 'last words'); process.exit(3)`
  const { stdout, status } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
  })
  expect(status).toBe(3)
  expect(JSON.parse(stdout)).toMatchObject({ msg: 'last words' })
})
