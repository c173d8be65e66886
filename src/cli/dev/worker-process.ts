import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { openLog } from './log-file.ts'

/** How a worker is run beside us. */
export interface WorkerProcessOptions {
  /** What follows `fencepost work`. */
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** Where its log goes. */
  readonly directory: string
  /** The name of that file. */
  readonly log: string
  /** Told of each start. */
  readonly onStart: (pid: number) => void
  /** Told when it ended without having been asked to, before another is started. */
  readonly onDeath: (how: string) => Promise<void> | void
}

/** How long it waits before another is started, in ms. */
const RESPAWN_DELAY = 1_000

const MAIN = fileURLToPath(new URL('../main.js', import.meta.url))

/**
 * A worker in a process of its own, so that it can be killed and its jobs seen to recover; one that
 * ended is followed by another. It drains when we stop it, and also when we are gone: then the channel
 * between us closes.
 */
export class WorkerProcess {
  readonly #options: WorkerProcessOptions
  #child: ChildProcess | undefined
  #stopping = false
  #running: Promise<void> | undefined

  constructor(options: WorkerProcessOptions) {
    this.#options = options
  }

  /** Starts it, and goes on doing so until `stop()`. */
  start(): void {
    this.#running = this.#run()
  }

  /** Asks it to finish what it runs, waits for its end, and kills it after `patience` ms. */
  async stop(patience: number): Promise<void> {
    this.#stopping = true
    this.#child?.kill('SIGTERM')
    const timer = setTimeout(() => this.#child?.kill('SIGKILL'), patience)
    await this.#running
    clearTimeout(timer)
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      const child = this.#spawn()
      this.#child = child
      if (child.pid !== undefined) this.#options.onStart(child.pid)
      const [code, signal] = await once(child, 'exit')
      if (this.#stopping) return
      await this.#options.onDeath(signal ?? `exit code ${code}`)
      await sleep(RESPAWN_DELAY)
    }
  }

  #spawn(): ChildProcess {
    const { fd } = openLog(this.#options.directory, this.#options.log)
    try {
      return spawn(process.execPath, [MAIN, 'work', ...this.#options.args], {
        env: this.#options.env,
        // A session of its own: Ctrl-C in a terminal is for us, and we tell it.
        detached: true,
        stdio: ['ignore', fd, fd, 'ipc'],
      })
    } finally {
      closeSync(fd)
    }
  }
}
