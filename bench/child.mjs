// A process of its own for whoever enqueues or works, told over IPC what to do:
// { id, method, args } is answered by { id, result } or { id, error }; { event } comes unasked.

import process from 'node:process'
import { Producer } from './lib/producer.mjs'
import { RunStarter } from './lib/run-starter.mjs'
import { RunWorker } from './lib/run-worker.mjs'
import { WorkerHost } from './lib/worker-host.mjs'
import { systemNamed } from './systems/index.mjs'

const [, , role, name] = process.argv
const system = systemNamed(name)
await system.load?.()
const send = (message) => process.connected && process.send(message)
const tell = (event, data) => send({ event, data })
const roles = { producer: Producer, worker: WorkerHost, starter: RunStarter, runner: RunWorker }
const actor = new roles[role](system, tell)

process.on('message', async ({ id, method, args }) => {
  try {
    send({ id, result: await actor[method](...args) })
  } catch (error) {
    send({ id, error: `${name} ${role} ${method}: ${error?.stack ?? error}` })
  }
})
process.on('disconnect', () => process.exit())
process.on('SIGINT', () => {}) // the parent ends us
send({ event: 'ready' })
