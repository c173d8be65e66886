const TYPE = 'bench'

/** The engine through its SQL functions. */
export async function engineSide(client) {
  const { rows } = await client.query(
    `select fencepost.register_worker('bench', types => $1) as id`,
    [[TYPE]],
  )
  const worker = rows[0].id
  return {
    async enqueue(payloads) {
      await client.query({
        name: 'enqueue_batch',
        text: 'select cardinality(fencepost.enqueue_batch($1, $2::jsonb[]))',
        values: [TYPE, payloads],
      })
    },
    /** Completes what is held, claims up to `max` more. */
    async exchange(held, max) {
      const result = await client.query({
        name: 'exchange',
        text: `select directive, job_id, token, payload from fencepost.exchange(
                 $1, completed_ids => $2, completed_tokens => $3, types => $4, max => $5)`,
        values: [
          worker,
          held.map(({ job_id }) => job_id),
          held.map(({ token }) => token),
          [TYPE],
          max,
        ],
      })
      return result.rows.filter(({ directive }) => directive === 'run')
    },
  }
}
