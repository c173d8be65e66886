import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { whenTrue } from './clock.mjs'
import { cpuMsOfTree } from './machine.mjs'

/** Redis keeps an append-only file; `appendfsync` says when that is forced to disk. */
export const SETTINGS = { appendonly: 'yes', save: '', 'maxmemory-policy': 'noeviction' }

const running = new Set()

/** The version of the Redis server that is installed here, or undefined. */
export function redisVersion() {
  const { stdout } = spawnSync('redis-server', ['--version'], { encoding: 'utf8' })
  return stdout?.match(/v=(\S+)/)?.[1]
}

/** Redis servers of a run: each round of each system gets a new one. */
export class RedisServers {
  #directory
  #number = 0

  constructor(directory) {
    this.#directory = directory
  }

  async place({ appendfsync }) {
    const port = await freePort()
    const data = path.join(this.#directory, `redis-${++this.#number}`)
    mkdirSync(data)
    const settings = { ...SETTINGS, appendfsync, bind: '127.0.0.1', port: String(port), dir: data }
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
    const child = spawn('redis-server', args, { stdio: 'ignore' })
    running.add(child)
    child.on('exit', () => running.delete(child))
    await whenTrue(() => accepts(port), { within: 10_000, what: 'redis-server' })
    return { kind: 'redis', port, pid: child.pid, data }
  }

  async discard({ pid, data }) {
    const child = [...running].find((each) => each.pid === pid)
    if (child) {
      const ended = new Promise((resolve) => child.on('exit', resolve))
      child.kill('SIGKILL')
      await ended
    }
    rmSync(data, { recursive: true, force: true })
  }

  async costs({ port, pid }) {
    const { default: Redis } = await import('ioredis')
    const client = new Redis({ port })
    const info = await client.info()
    client.disconnect()
    const read = (name) => Number(info.match(new RegExp(`^${name}:(\\d+)`, 'm'))?.[1])
    return {
      logBytes: read('aof_current_size'),
      requests: read('total_commands_processed'),
      cpuMs: cpuMsOfTree(pid),
    }
  }

  static endAll() {
    for (const child of running) child.kill('SIGKILL')
  }
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = net.createServer()
    server.on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}

function accepts(port) {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1')
    socket.on('connect', () => resolve(true))
    socket.on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
}
