import type { Database, Queryable } from '../../src/database/database.ts'
import type { Entry, Ledger } from './ledger.ts'

/** The one ending of a job, as the engine's log has it. */
interface Ending {
  readonly job_id: number
  readonly kind: string
  readonly token: number
  readonly count: number
}

/**
 * Compares what the engine says of these jobs with what their handlers wrote down, and gives a line
 * for each contradiction: a job lost, ended twice, completed without its effect, run again after its
 * completion, a token handed out twice, an invariant broken.
 */
export async function judge(
  db: Database,
  jobs: readonly number[],
  ledger: Ledger,
): Promise<string[]> {
  const entries = ledger.read()
  const endings = new Map<number, Ending>()
  for (const ending of await endingsOf(db)) endings.set(ending.job_id, ending)
  const complaints = jobs.flatMap((job) => complaintsOf(job, endings.get(job), entries.get(job)))
  for (const row of await db.query('select * from fencepost.check_invariants()')) {
    complaints.push(`invariant broken: ${JSON.stringify(row)}`)
  }
  return complaints
}

/** Makes the table in which transactional handlers have their effect: nothing in it forbids a second one. */
export async function createEffects(db: Queryable): Promise<void> {
  await db.query('create table effect (job_id bigint not null, token int not null)')
}

/** A line for each job of these types that was completed without exactly one effect, of the attempt that completed it. */
export async function judgeEffects(db: Queryable, types: readonly string[]): Promise<string[]> {
  const rows = await db.query<{ job_id: number; effects: number[]; token: number | null }>(
    `select coalesce(c.job_id, f.job_id) as job_id, c.token, coalesce(f.tokens, '{}') as effects
     from (select e.job_id, e.token
           from fencepost_private.event e
           join fencepost_private.lane n on n.lane_id = e.lane_id
           join fencepost_private.job_type t on t.type_id = n.type_id
           where e.kind = 'job.completed' and t.type = any ($1)) as c
     full join (select job_id, array_agg(token) as tokens from effect group by job_id) as f on f.job_id = c.job_id
     where f.tokens is distinct from array[c.token]`,
    [types],
    { timeout: 60_000 },
  )
  return rows.map(
    ({ job_id, effects, token }) =>
      `job ${job_id} was completed under token ${token}, with effects under ${effects.join() || 'none'}`,
  )
}

/** How many attempts began that were not the one that ended the job: work done in vain. */
export function attemptsInVain(ledger: Ledger): number {
  let count = 0
  for (const attempts of ledger.read().values()) count += attempts.length - 1
  return count
}

/** How many jobs have not ended yet. */
export async function unfinished(db: Queryable): Promise<number> {
  const rows = await db.query<{ count: number }>(
    `select (select count(*) from fencepost_private.ready) + (select count(*) from fencepost_private.delayed)
          + (select count(*) from fencepost_private.lease) as count`,
  )
  return rows[0]?.count ?? 0
}

/** A line for each of the first jobs that have not ended, saying where it is. */
export async function whereabouts(db: Queryable): Promise<string[]> {
  const rows = await db.query<{ line: string }>(
    `select format('job %s is ready since %s', r.id, r.ready_at) as line from fencepost_private.ready r
     union all
     select format('job %s is delayed until %s', d.id, d.available_at) from fencepost_private.delayed d
     union all
     select format('job %s is leased under token %s since %s, seen %s, by worker %s, %s, last heard %s',
                   l.id, l.token, l.started_at, l.seen_at, w.worker_id, w.status, w.heartbeat_at)
     from fencepost_private.lease l left join fencepost_private.worker w on w.worker_id = l.worker_id
     limit 20`,
  )
  return rows.map(({ line }) => line)
}

async function endingsOf(db: Database): Promise<Ending[]> {
  return db.query<Ending>(
    `select job_id, min(kind::text) as kind, max(token) as token, count(*)
     from fencepost_private.event
     where kind in ('job.completed', 'job.dead_lettered', 'job.cancelled', 'job.discarded')
     group by job_id`,
    [],
    { timeout: 60_000 },
  )
}

function complaintsOf(
  job: number,
  ending: Ending | undefined,
  attempts: readonly Entry[] = [],
): string[] {
  if (ending === undefined) return [`job ${job} was lost: it never ended`]
  const complaints: string[] = []
  const complain = (what: string) => complaints.push(`job ${job} ${what}`)
  if (ending.count !== 1) complain(`ended ${ending.count} times`)
  for (const { token, begun, done, accepted } of attempts) {
    if (begun > 1) complain(`was handed out ${begun} times under token ${token}`)
    if (token > ending.token)
      complain(`ran under token ${token} after its end under ${ending.token}`)
    if (accepted > 0 && (ending.kind !== 'job.completed' || token !== ending.token)) {
      complain(`was accepted under token ${token}, but ended as ${ending.kind} ${ending.token}`)
    }
    if (token === ending.token && ending.kind === 'job.completed' && done !== 1) {
      complain(`completed under token ${token}, but had its effect ${done} times there`)
    }
  }
  if (ending.kind === 'job.completed' && !attempts.some(({ token }) => token === ending.token)) {
    complain(`completed under token ${ending.token}, which no handler has seen`)
  }
  return complaints
}
