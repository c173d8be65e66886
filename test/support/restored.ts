import type { Queryable } from '../../src/database/database.ts'

/**
 * What a logical restore leaves: each row was written by a transaction of this server, and carries the number of one of
 * another server, which was ahead by so much.
 */
export async function restoreAsDump(db: Queryable, ahead: number): Promise<void> {
  const moved = {
    ready: 'xid = xid + $1',
    event: 'xid = xid + $1',
    depth_delta: 'xid = xid + $1',
    depth_base: 'x = x + $1',
    outcome_base: 'x = x + $1',
    event_tick: 'x = x + $1, xip = array(select i + $1 from unnest(xip) as i)',
    consumer_state: `position = row((position).px + $1, (position).pflight, (position).tx + $1, (position).tflight, (position).last_id)`,
  }
  for (const [table, change] of Object.entries(moved))
    await db.query(
      `update fencepost_private.${table} set ${change.replaceAll('$1', '$1::bigint')}`,
      [ahead],
    )
  await db.query(`
    with dumped as (delete from fencepost_private.origin returning written_by)
    insert into fencepost_private.origin select written_by from dumped`)
}
