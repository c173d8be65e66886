import { afterEach, expect, it, vi } from 'vitest'
import { connect } from '../../src/database/database.ts'
import type { RunDirective } from '../../src/database/engine.ts'
import { defineJob } from '../../src/index.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { Attempt } from '../../src/worker/attempt.ts'
import { LoopWatch } from '../../src/worker/loop-watch.ts'
import { Outbox } from '../../src/worker/outbox.ts'
import { Runner } from '../../src/worker/runner.ts'
import { Settler } from '../../src/worker/settler.ts'
import { serverUrl } from '../support/server.ts'

afterEach(() => void vi.useRealTimers())

it('asks a database that was closed only once how an attempt ended', async () => {
  const db = connect({ url: serverUrl() })
  await db.close()
  const definition = defineJob({ type: 'settler.closed', run: () => {} })
  const outbox = new Outbox()
  const runner = new Runner({
    db,
    name: 'settler',
    log: silentLogger,
    definitions: new Map([[definition.type, definition]]),
    concurrency: 1,
    abortGrace: 1_000,
    watch: new LoopWatch([definition.type]),
    ended: () => {},
    freed: () => {},
    lost: () => {},
  })
  const settled = vi.fn()
  const settler = new Settler({ db, log: silentLogger, runner, outbox, settled, asked: () => {} })
  const job = { job_id: 1, token: 1, type: definition.type } as RunDirective
  const attempt = new Attempt(job, definition, 1, runner)
  attempt.completing = true
  // No pause would ever end.
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  await settler.ask(attempt)
  expect(settled).not.toHaveBeenCalled()
  expect(outbox.takeLocked()).toBe(attempt)
}, 5_000)
