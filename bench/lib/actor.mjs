import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const CHILD = fileURLToPath(new URL('../child.mjs', import.meta.url))
const alive = new Set()

/** A producer or a worker in a child process: its methods are called as if they were here. */
export class Actor {
  #child
  #calls = new Map()
  #listeners = new Map()
  #nextId = 1
  #ended = false

  /** Resolves when the process is up and has loaded the system's library. */
  static async start(role, system) {
    const actor = new Actor(role, system.name)
    await actor.event('ready', 30_000)
    return actor
  }

  constructor(role, name) {
    this.#child = fork(CHILD, [role, name], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    alive.add(this)
    this.#child.on('message', (message) => this.#receive(message))
    this.#child.on('exit', (code, signal) => {
      alive.delete(this)
      this.#ended = true
      const error = new Error(`${name} ${role} ended (${signal ?? code})`)
      for (const { reject } of this.#calls.values()) reject(error)
      for (const listeners of this.#listeners.values()) {
        for (const { reject } of listeners) reject?.(error)
      }
    })
  }

  call(method, ...args) {
    if (this.#ended) return Promise.reject(new Error(`${method}: the process has ended`))
    const id = this.#nextId++
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject })
      this.#child.send({ id, method, args })
    })
  }

  /** The next `name` event, or an error after `within` ms. */
  event(name, within) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`no ${name} within ${Math.round(within / 1000)} s`)),
        within,
      )
      this.#listen(name, { resolve, reject, timer, once: true })
    })
  }

  /** Calls `listener` with each `name` event. */
  on(name, listener) {
    this.#listen(name, { resolve: listener })
  }

  /** Ends the process; what it held in flight is lost. */
  end() {
    this.#child.kill('SIGKILL')
  }

  static endAll() {
    for (const actor of alive) actor.end()
  }

  #listen(name, listener) {
    const listeners = this.#listeners.get(name) ?? new Set()
    listeners.add(listener)
    this.#listeners.set(name, listeners)
  }

  #receive({ id, result, error, event, data }) {
    if (event !== undefined) {
      const listeners = this.#listeners.get(event) ?? new Set()
      for (const listener of listeners) {
        clearTimeout(listener.timer)
        if (listener.once) listeners.delete(listener)
        listener.resolve(data)
      }
      return
    }
    const call = this.#calls.get(id)
    this.#calls.delete(id)
    if (error === undefined) call?.resolve(result)
    else call?.reject(new Error(error))
  }
}
