import { setTimeout as sleep } from 'node:timers/promises'
import { connect, type Database } from '../../src/database/database.ts'
import type { EmbeddedServer } from '../../src/database/embedded.ts'
import { moveClock } from '../support/clock.ts'
import type { TcpProxy } from '../support/proxy.ts'
import type { Crew } from './crew.ts'
import type { Random } from './random.ts'

/** What a storm strikes. */
export interface Targets {
  readonly server: EmbeddedServer
  /** The database, past the proxy. */
  readonly url: string
  readonly db: Database
  /** Through which the workers reach the server. */
  readonly proxy: TcpProxy
  readonly crew: Crew
  readonly crewSize: number
  /** How long a worker may be silent, in ms. */
  readonly ttl: number
}

/** Faults, one after the other, as a seed chooses them. */
export class Storm {
  readonly #targets: Targets
  readonly #random: Random
  readonly #counts = new Map<string, number>()
  readonly #sleepers: Promise<void>[] = []
  #snapshot: Database | undefined

  constructor(targets: Targets, random: Random) {
    this.#targets = targets
    this.#random = random
  }

  /** How often each fault struck. */
  get summary(): string {
    return [...this.#counts].map(([name, count]) => `${name} ${count}`).join(', ')
  }

  /** Strikes again and again for this long, in ms. At its end all that was disturbed is whole again. */
  async rage(duration: number): Promise<void> {
    const faults = Object.entries(this.#faults)
    // Each once, in a random order, before chance decides alone.
    const first = faults.slice()
    // Zombies are the hardest: whoever comes back from the dead writes for jobs that are others'.
    const zombies = faults.filter(([name]) => name === 'worker stopped past its ttl')
    faults.push(...zombies, ...zombies)
    const until = Date.now() + duration
    while (Date.now() < until) {
      const next = first.splice(this.#random.between(0, first.length - 1), 1)[0]
      const [name, strike] = next ?? this.#random.pick(faults)
      this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1)
      await strike()
      await sleep(this.#random.between(100, 1_000))
    }
    await Promise.all(this.#sleepers)
    await this.#snapshot?.close()
    // Connections of which the proxy has swallowed a part would be found dead by their deadlines only.
    this.#targets.proxy.reset()
  }

  readonly #faults: Readonly<Record<string, () => Promise<void>>> = {
    'worker killed': () => this.#targets.crew.kill(this.#anyone()),

    'worker stopped past its ttl': async () => {
      const { crew, ttl } = this.#targets
      const index = this.#anyone()
      crew.pause(index)
      // The storm goes on meanwhile.
      this.#sleepers.push(sleep(ttl * 2).then(() => crew.resume(index)))
    },

    'backends terminated': async () => {
      await this.#targets.db
        .query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and pid <> pg_backend_pid() and random() < 0.5`,
        )
        .catch(() => {}) // one of ours was among them
    },

    'connections reset': async () => {
      this.#targets.proxy.reset()
    },

    'network black hole': async () => {
      const { proxy } = this.#targets
      proxy.blackHole = true
      await sleep(this.#random.between(200, 3_000))
      proxy.blackHole = false
    },

    'slow network': async () => {
      const { proxy } = this.#targets
      proxy.latency = this.#random.between(5, 100)
      await sleep(1_000)
      proxy.latency = 0
    },

    'server crashed': async () => {
      const { server } = this.#targets
      await server.kill()
      await sleep(this.#random.between(0, 2_000))
      await server.restart()
    },

    'server restarted': () => this.#targets.server.restart(),

    'clock jumped ahead': async () => {
      await moveClock(this.#targets.db, `${this.#random.between(1, 600)} s`).catch(() => {})
    },

    'snapshot held': async () => {
      await this.#snapshot?.close()
      this.#snapshot = connect({ url: this.#targets.url, max: 2, applicationName: 'held snapshot' })
      void this.#snapshot
        .transaction(async (tx) => {
          await tx.query('set transaction isolation level repeatable read')
          await tx.query('select count(*) from fencepost_private.ready')
          await tx.query('select pg_sleep(3600)', [], { timeout: Number.POSITIVE_INFINITY })
        })
        .catch(() => {}) // it ends with the storm, or with the server
    },
  }

  #anyone(): number {
    return this.#random.between(0, this.#targets.crewSize - 1)
  }
}
