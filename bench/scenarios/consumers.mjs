import { setTimeout as sleep } from 'node:timers/promises'
import { now } from '../lib/clock.mjs'
import { payloads } from '../lib/payload.mjs'
import { connect } from '../lib/postgres.mjs'
import { engineSide } from './engine/functions.mjs'

const BATCH = 500
const READ = 2000
const READERS = 3
/** How many events are read to tell a rate. */
const SAMPLE = 100_000
/** Events of one transaction in the log that is read from behind, and transactions from tick to tick. */
const EVENTS = 500
const APART = 10

/** What reading the event log costs the engine, and what being behind costs a reader. */
export const consumers = {
  name: 'consumers',
  title: 'Consumers of the event log',
  about:
    'One connection drains a queue through exchange, without readers and then with three consumers that each read and acknowledge every event as fast as they can. Then consumers read a long log.',
  unit: 'drain with three readers ÷ without',
  higher: true,
  sizes: {
    quick: { jobs: 20_000, behind: 200_000 },
    full: { jobs: 200_000, behind: 5_000_000 },
  },
  suits: (system) => system.name === 'engine',

  async round(stage, system, { jobs, behind }) {
    return await stage.with(system, async ({ place, settle }) => {
      const client = await connect(place.url)
      const side = await engineSide(client)
      const alone = await drain(side, jobs, settle)
      const readers = await Promise.all(
        Array.from({ length: READERS }, (_, index) => Reader.start(place.url, `reader-${index}`)),
      )
      const followed = await drain(side, jobs, settle)
      const read = readers.map((reader) => reader.count)
      const lags = await Promise.all(readers.map((reader) => reader.catchUp()))

      const { rows } = await client.query('select fencepost.event_position() as start')
      await fill(client, behind)
      await settle()
      const far = await Reader.over(place.url, 'far', rows[0].start)
      const farRate = await far.rate(SAMPLE)
      const near = await Reader.over(place.url, 'near', await positionBefore(client, SAMPLE))
      const nearRate = await near.rate(SAMPLE)
      for (const each of [far, near]) await each.close()
      await client.end()
      return {
        value: followed / alone,
        alone,
        followed,
        readWhileDraining: read.map((count) => count / jobs),
        catchUpMs: Math.max(...lags),
        farRate,
        nearRate,
        farByNear: farRate / nearRate,
      }
    })
  },
}

async function drain(side, jobs, settle) {
  for (let n = 0; n < jobs; n += 1000) {
    await side.enqueue(payloads(n, 1000).map((each) => JSON.stringify(each)))
  }
  await settle()
  const startedAt = now()
  let held = await side.exchange([], BATCH)
  while (held.length > 0) held = await side.exchange(held, BATCH)
  return (jobs / (now() - startedAt)) * 1000
}

/** Writes a log of completions, as if the engine had been busy. */
async function fill(client, events) {
  await client.query(`
    do $$
    begin
      for n in 1..${events / EVENTS} loop
        insert into fencepost_private.event (xid, at, kind, job_id)
        select fencepost_private.xid(), clock_timestamp(), 'job.completed', n from generate_series(1, ${EVENTS});
        commit;
        if n % ${APART} = 0 then
          perform fencepost_private.tick('0'), fencepost_private.ensure_partitions();
          commit;
        end if;
      end loop;
    end
    $$`)
}

/** The last tick with at least so many events after it. */
async function positionBefore(client, events) {
  const { rows } = await client.query(
    `select fencepost_private.position_text(fencepost_private.place_of_tick(t.x, t.flight)) as position
     from fencepost_private.event_tick t
     where t.last_id <= (select last_value from fencepost_private.event_id_seq) - $1
     order by t.x desc, t.flight desc limit 1`,
    [events],
  )
  return rows[0].position
}

/** Reads and acknowledges, in one statement each time. */
class Reader {
  #client
  #name
  #over = false
  #following
  count = 0

  static async over(url, name, position) {
    const reader = new Reader()
    reader.#client = await connect(url)
    reader.#name = name
    await reader.#client.query('select fencepost.create_consumer($1, start => $2)', [
      name,
      position,
    ])
    return reader
  }

  static async start(url, name) {
    const reader = await Reader.over(url, name, 'now')
    reader.#following = reader.#follow()
    return reader
  }

  async #follow() {
    for (;;) {
      const over = this.#over
      const read = await this.#read()
      if (read === 0 && over) return
      if (read === 0) await sleep(100)
    }
  }

  async #read() {
    const { rows } = await this.#client.query({
      name: 'read',
      text: `with read as materialized (select position, id from fencepost.read_events($1, $2))
             select (select count(*) from read)::int as count,
                    fencepost.ack_events($1, (select position from read order by id desc limit 1))
             where exists (select from read)`,
      values: [this.#name, READ],
    })
    const count = rows[0]?.count ?? 0
    this.count += count
    return count
  }

  /** How long it takes to read what is left, in ms. */
  async catchUp() {
    const startedAt = now()
    this.#over = true
    await this.#following
    await this.close()
    return now() - startedAt
  }

  /** Events a second, over so many. */
  async rate(events) {
    await this.#read() // plans and caches
    const before = this.count
    const startedAt = now()
    while (this.count - before < events - READ) {
      if ((await this.#read()) === 0) throw new Error(`only ${this.count} events were there`)
    }
    return ((this.count - before) / (now() - startedAt)) * 1000
  }

  close() {
    return this.#client.end()
  }
}
