import { afterEach, describe, expect, it } from 'vitest'
import { json } from '../../src/database/database.ts'
import { begin, expectSound, publish, start } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { one, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => expectSound(db()))

/** JSON of so many bytes, as the database writes it. */
const ofBytes = (bytes: number) => ({ x: 'x'.repeat(bytes - '{"x": ""}'.length) })
const LIMIT = 1_048_576

describe('what is given to a run has at most 1 MiB', () => {
  it('its input', async () => {
    const workflow = await publish(db(), { a: { input: {} } })
    await start(db(), workflow, ofBytes(LIMIT))
    const refusal = await refused(start(db(), workflow, ofBytes(LIMIT + 1)), 'JE006')
    expect(refusal).toMatchObject({
      message: `the input of ${workflow} is too large`,
      detail: 'received 1048577 bytes; the limit is 1048576',
    })
  })

  it('the inputs of many, and the message names the place', async () => {
    const workflow = await publish(db(), { a: {} })
    const many = db().query(
      'select fencepost.start_runs($1, (select array_agg(e) from jsonb_array_elements($2::jsonb) as e))',
      [workflow, json([{}, ofBytes(LIMIT + 1)])],
    )
    expect((await refused(many, 'JE006')).message).toBe('input 2 of the list is too large')
    expect(
      await one(db(), 'select count(*)::int from fencepost.runs where workflow = $1', [workflow]),
    ).toBe(0)
  })

  it('what a child run is given: the task fails', async () => {
    const child = await publish(db(), { a: {} })
    const input = { twice: ['$.input', '$.input'] }
    const run = await begin(
      db(),
      { call: { kind: 'workflow', workflow: child, input } },
      ofBytes(600_000),
    )
    expect(await run.task('call')).toMatchObject({
      status: 'failed',
      error: expect.stringMatching(
        /^JE006: the input of .+ is too large: 12\d+ bytes of at most 1048576$/,
      ),
    })
  })

  it('the payload of a signal, and nothing is stored', async () => {
    const run = await begin(db(), { s: { kind: 'signal', signal: 'go' } })
    const { message } = await refused(
      run.call('signal_run', 'go', json(ofBytes(LIMIT + 1))),
      'JE006',
    )
    expect(message).toBe(`the payload of the signal 'go' is too large`)
    expect((await run.task('s')).status).toBe('waiting')
    await run.call('signal_run', 'go', json(ofBytes(LIMIT)))
    expect((await run.task('s')).status).toBe('completed')
  })

  it.each(['approve', 'reject'])('the data of a decision: %s', async (verb) => {
    const run = await begin(db(), { ok: { kind: 'approval' } })
    const decide = (rest: string, ...params: unknown[]) =>
      db().query(`select fencepost.${verb}($1, ${rest})`, params)
    const id = await run.approval('ok')
    await refused(decide('data => $2', id, json(ofBytes(LIMIT + 1))), 'JE006')
    const { message } = await refused(decide('comment => $2', id, 'x'.repeat(10_001)), 'JE003')
    expect(message).toBe('the comment must have at most 10000 characters')
    await refused(decide('decided_by => $2', id, 'x'.repeat(201)), 'JE003')
    await decide('comment => $2', id, 'x'.repeat(10_000))
  })
})

describe('texts about a run', () => {
  it.each([
    ['a hundred and one tags', Array.from({ length: 101 }, (_, n) => `t${n}`), 'received 101'],
    ['an empty tag', ['a', ''], `received ''`],
    ['a null', ['a', null], 'received null'],
    ['a long tag', ['x'.repeat(201)], 'received'],
  ])('tags are few and short: %s', async (_, tags, detail) => {
    const workflow = await publish(db(), { a: {} })
    const one = await refused(start(db(), workflow, {}, { tags }), 'JE003')
    expect(one.detail).toContain(detail)
    await refused(
      db().query(`select fencepost.start_runs($1, array['{}'::jsonb], tags => $2)`, [
        workflow,
        tags,
      ]),
      'JE003',
    )
  })

  it('a tenant is short', async () => {
    const workflow = await publish(db(), { a: {} })
    await refused(start(db(), workflow, {}, { tenant: 'x'.repeat(101) }), 'JE003')
  })

  it('reasons are no documents', async () => {
    const run = await begin(db(), { a: {} })
    const reason = 'x'.repeat(10_001)
    await refused(run.call('pause_run', reason), 'JE003')
    await refused(run.call('cancel_run', reason), 'JE003')
    const { id } = await run.task('a')
    await refused(one(db(), 'select fencepost.request_approval($1, $2)', [id, reason]), 'JE003')
    expect(await run.status()).toBe('running')
  })
})
