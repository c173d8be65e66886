const TABLES = ['job', 'ready', 'lease', 'event', 'depth_delta']

/** Copies with the same columns, indexes and settings; not partitioned, and with no foreign keys. */
const COPIES = `
  create schema plain;
  ${TABLES.map(
    (name) => `create table plain.${name} (like fencepost_private.${name} including all);`,
  ).join('\n')}
  create sequence plain.job_id;
  do $$
  declare settings record;
  begin
    for settings in
      select relname, array_to_string(reloptions, ', ') as list from pg_class
      where relnamespace = 'fencepost_private'::regnamespace and relname = any ('{${TABLES}}')
        and relkind = 'r' and reloptions is not null
    loop
      execute format('alter table plain.%I set (%s)', settings.relname, settings.list);
    end loop;
  end $$`

const ENQUEUE = `
  with given as materialized (
    select nextval('plain.job_id') as id, payload from unnest($1::jsonb[]) as payload
  ), body as (
    insert into plain.job (id, lane_id, payload, created_at)
    select id, 1, payload, clock_timestamp() from given
  ), counted as (
    insert into plain.depth_delta (type_id, xid, ready, enqueued) select 1, 1, count(*), count(*) from given
  )
  insert into plain.ready (id, xid, lane_id, attempts, token, ready_at)
  select id, 1, 1, 0, 0, clock_timestamp() from given`

/** Ends the leases from $1 to $2 and leases the jobs from $3 to $4, as one exchange does. */
const EXCHANGE = `
  with ended as (
    delete from plain.lease where id between $1 and $2 returning *
  ), told as (
    insert into plain.event (xid, at, kind, outcome, lane_id, job_id, attempt, token, worker_id, ready_at, started_at)
    select 1, clock_timestamp(), 'job.completed', 'completed', lane_id, id, attempts, token, worker_id, ready_at, started_at
    from ended
  ), taken as (
    delete from plain.ready where id between $3 and $4 returning *
  ), bodies as materialized (
    select t.id, t.token + 1 as token, t.attempts + 1 as attempts, t.ready_at, j.payload
    from taken t join plain.job j on j.id = t.id
  ), leased as (
    insert into plain.lease (id, token, worker_id, lane_id, attempts, ready_at, started_at)
    select id, token, 1, 1, attempts, ready_at, clock_timestamp() from bodies
  ), counted as (
    insert into plain.depth_delta (type_id, xid, ready, running)
    select 1, 1, -count(*), count(*) from bodies union all select 1, 1, 0, -count(*) from ended
  )
  select id as job_id, token, payload from bodies`

/** Plain statements that write the rows which the engine writes for a job, and no others. */
export async function plainSide(client) {
  await client.query(COPIES)
  let last = 0
  let next = 1
  return {
    async enqueue(payloads) {
      await client.query({ name: 'plain_enqueue', text: ENQUEUE, values: [payloads] })
      last += payloads.length
    },
    async exchange(held, max) {
      const end = Math.min(next + max - 1, last)
      const result = await client.query({
        name: 'plain_exchange',
        text: EXCHANGE,
        values: [next - held.length, next - 1, next, end],
      })
      next = end + 1
      return result.rows
    },
  }
}
