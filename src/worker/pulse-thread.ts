import { writeSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { connect } from '../database/database.ts'
import { levels } from '../telemetry/logger.ts'
import { BlockDetector, type BlockNews, WATCH_EVERY } from './loop-watch.ts'
import { type Held, PulseLoop, type PulseNews, type PulseSettings } from './pulse-loop.ts'

// A thread of its own with connections of its own: a handler that blocks the event loop for minutes
// keeps its lease, and somebody is there to say so.

/** What the thread is started with. */
export interface PulseThreadData extends PulseSettings {
  readonly url: string
  readonly prepare: boolean | undefined
  readonly watch: SharedArrayBuffer
  readonly types: readonly string[]
}

/** What the thread is told. */
export type PulseOrder =
  | { readonly kind: 'incarnation'; readonly incarnation: number | undefined }
  | { readonly kind: 'held'; readonly held: Held }
  | { readonly kind: 'beat' }
  | { readonly kind: 'stop' }

const port = parentPort
if (port === null) throw new Error('this module is the entry of a worker thread')

const data = workerData as PulseThreadData
const db = connect({
  url: data.url,
  max: 2,
  applicationName: 'fencepost pulse',
  ...(data.prepare === undefined ? {} : { prepare: data.prepare }),
})
const loop = new PulseLoop(db, data, (news: PulseNews) => port.postMessage(news))
const detector = new BlockDetector(data.watch, data.types)
const watching = setInterval(() => hear(detector.look()), WATCH_EVERY)

port.on('message', (order: PulseOrder) => {
  if (order.kind === 'incarnation') loop.incarnation = order.incarnation
  else if (order.kind === 'held') loop.held = order.held
  else if (order.kind === 'beat') loop.beat()
  else void stop()
})
loop.start()

async function stop(): Promise<void> {
  clearInterval(watching)
  await loop.close()
  await db.close()
  port?.close()
}

function hear(news: BlockNews | undefined): void {
  if (news === undefined) return
  const { kind, types, ms } = news
  loop.blocked = kind === 'blocked'
  if (kind === 'blocked') warn(news)
  else port?.postMessage({ kind: 'blocked', types, ms } satisfies PulseNews)
}

/** The standard error of the process: a thread has none of its own. */
const STDERR = 2

/** Past the logger, which lives on the thread that is blocked, perhaps for ever. */
function warn({ types, ms }: BlockNews): void {
  const line = {
    level: levels.warn,
    time: Date.now(),
    worker: data.name,
    types,
    blocked_ms: Math.round(ms),
    msg: `the event loop is blocked, probably by ${types.join(' or ') || 'code outside of handlers'}; heartbeats go on`,
  }
  try {
    writeSync(STDERR, `${JSON.stringify(line)}\n`)
  } catch {
    // Nobody reads standard error.
  }
}
