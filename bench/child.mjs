// A process of its own for each producer and each worker, told over IPC what to do:
// { id, method, args } is answered by { id, result } or { id, error }; { event } comes unasked.

import process from 'node:process'
import { Producer } from './lib/producer.mjs'
import { WorkerHost } from './lib/worker-host.mjs'
import { systemNamed } from './systems/index.mjs'

const [, , role, name] = process.argv
const system = systemNamed(name)
await system.load?.()
const send = (message) => process.connected && process.send(message)
const actor =
  role === 'producer'
    ? new Producer(system)
    : new WorkerHost(system, (event, data) => send({ event, data }))

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
