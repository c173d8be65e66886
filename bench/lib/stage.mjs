import { Actor } from './actor.mjs'
import { PostgresServer, settle } from './postgres.mjs'
import { RedisServers } from './redis.mjs'
import { scratchDirectory } from './storage.mjs'

/** The servers of a run, and a fresh place on them for each round of each system. */
export class Stage {
  #scratch = scratchDirectory()
  #redis = new RedisServers(this.#scratch.directory)
  #postgres

  static async open() {
    const stage = new Stage()
    stage.#postgres = await PostgresServer.start(stage.#scratch.directory)
    return stage
  }

  get directory() {
    return this.#scratch.directory
  }

  get postgresVersion() {
    return this.#postgres.version
  }

  /** Runs `play({ place, producer, settle, costs })` for one system in a place of its own. */
  async with(system, play) {
    const servers = system.store === 'redis' ? this.#redis : this.#postgres
    const place = await servers.place(system.redis)
    const actors = []
    try {
      await system.install(place)
      return await play({
        place,
        actor: async (role) => {
          const actor = await Actor.start(role, system)
          actors.push(actor)
          return actor
        },
        settle: () => (system.store === 'postgres' ? settle(place) : undefined),
        costs: () => servers.costs(place),
      })
    } finally {
      for (const actor of actors) actor.end()
      await servers.discard(place)
    }
  }

  /** An empty database, for the floor. */
  async withDatabase(play) {
    const place = await this.#postgres.place()
    try {
      return await play(place)
    } finally {
      await this.#postgres.discard(place)
    }
  }

  async close() {
    Actor.endAll()
    RedisServers.endAll()
    await this.#postgres.stop()
    this.#scratch.remove()
  }
}
