import { beforeAll, describe, expect, it } from 'vitest'
import { json } from '../../../src/database/database.ts'
import { ownDatabase } from '../../support/server.ts'
import { column, one, refused } from '../../support/sql.ts'

const database = ownDatabase()

async function publish(name: string, tasks: object): Promise<void> {
  await one(database.db, 'select fencepost.publish_workflow($1, $2)', [name, json({ tasks })])
}

function start(name: string, options: Readonly<Record<string, unknown>> = {}): Promise<number> {
  const list = Object.keys(options).map((key, index) => `, ${key} => $${index + 2}`)
  const values = Object.values(options)
  return one(database.db, `select fencepost.start_run($1${list.join('')})`, [name, ...values])
}

function runs(filter: object, more = ''): Promise<number[]> {
  const text = `select id from fencepost.list_runs($1${more}) where not cut`
  return column(database.db, text, [json(filter)])
}

describe('list_runs', () => {
  let ids: number[]
  beforeAll(async () => {
    await publish('a', { x: { kind: 'signal', signal: 's' } })
    await publish('b', { x: { kind: 'signal', signal: 's' } })
    ids = [
      await start('a', { tags: ['red'], idempotency_key: 'k' }),
      await start('b', { tags: ['red', 'blue'], tenant: 'acme' }),
      await start('a', { tags: ['blue'], tenant: 'acme', idempotency_key: 'k' }),
    ]
    await one(database.db, 'select fencepost.signal_run($1, $2)', [ids[0], 's'])
  })

  it('narrows by each key, newest first', async () => {
    const [first = 0, second = 0, third = 0] = ids
    const expected: [object, number[]][] = [
      [{}, [third, second, first]],
      [{ workflow: 'a' }, [third, first]],
      [{ workflow: 'never' }, []],
      [{ status: 'completed' }, [first]],
      [{ status: 'waiting' }, [third, second]],
      [{ status: 'completed', workflow: 'a' }, [first]],
      [{ status: 'waiting', workflow: 'a' }, [third]],
      [{ tag: 'red' }, [second, first]],
      [{ tenant: 'acme' }, [third, second]],
      [{ workflow: 'a', version: 1 }, [third, first]],
      [{ workflow: 'a', version: '2' }, []],
      [{ workflow: 'a', idempotency_key: 'k' }, [first]],
      [{ workflow: 'a', idempotency_key: 'k', tenant: 'acme' }, [third]],
      [{ created_after: '2000-01-01' }, [third, second, first]],
      [{ created_before: '2000-01-01' }, []],
      [{ workflow: null }, [third, second, first]],
    ]
    for (const [filter, found] of expected) {
      expect(await runs(filter), JSON.stringify(filter)).toEqual(found)
    }
  })

  it('goes on below a run, and gives no more than asked', async () => {
    const [first, second, third] = ids
    expect(await runs({}, ', max => 2')).toEqual([third, second])
    expect(await runs({}, `, after => ${second}`)).toEqual([first])
  })

  it('looks at 10,000 runs and says where it stopped', async () => {
    const started = await column<number>(
      database.db,
      `insert into fencepost_private.run (run_id, root_run_id, workflow_id, version_id, input, created_at)
       select nextval('fencepost_private.run_id_seq'), 0, r.workflow_id, r.version_id, r.input, r.created_at
       from fencepost_private.run r, generate_series(1, 10000) where r.run_id = $1
       returning run_id`,
      [ids[0]],
    )
    const [row] = await database.db.query('select * from fencepost.list_runs(\'{"tag": "red"}\')')
    expect(row).toMatchObject({ id: started[0], cut: true, workflow: null })
    expect(await runs({ tag: 'red' }, `, after => ${started[0]}`)).toEqual([ids[1], ids[0]])
    expect(await runs({ tag: 'red', workflow: 'b' })).toEqual([ids[1]])
  })

  it('refuses what is no filter', async () => {
    for (const filter of [
      [],
      { status: 'done' },
      { colour: 'red' },
      { version: 1 },
      { idempotency_key: 'k' },
      { workflow: 'a', version: 'one' },
      { created_after: 'soon' },
      { workflow: ['a'] },
    ]) {
      await refused(runs(filter), 'JE003')
    }
    for (const max of ['0', '1001', 'null']) await refused(runs({}, `, max => ${max}`), 'JE003')
  })
})

describe('list_tasks', () => {
  let run: number
  beforeAll(async () => {
    await publish('graph', {
      z: { type: 'graph.z' },
      m: { kind: 'map', type: 'graph.m', over: '$.input.xs', after: ['z'] },
      a: { kind: 'approval', after: ['m'] },
    })
    run = await start('graph', { input: json({ xs: [1, 2, 3] }) })
    await database.db.query(
      "select fencepost.complete(job_id, token) from fencepost.claim('w', array['graph.z'])",
    )
  })

  function tasks(filter: object = {}, more = '') {
    return database.db.query<{ id: number; name: string; item: number | null }>(
      `select * from fencepost.list_tasks($1, $2${more})`,
      [run, json(filter)],
    )
  }

  it('gives parents before children, in parts', async () => {
    const [z, m, a] = await tasks()
    expect([z?.name, m?.name, a?.name]).toEqual(['z', 'm', 'a'])
    expect(m).toMatchObject({ after: ['z'], status: 'waiting', items: 3, compensation: null })
    expect(await tasks({}, ', max => 1')).toMatchObject([{ name: 'z' }])
    expect(await tasks({}, `, after_task => ${z?.id}, max => 1`)).toMatchObject([{ name: 'm' }])
    expect(await tasks({}, `, after_task => ${a?.id}`)).toEqual([])
    expect(await tasks({ status: 'pending' })).toMatchObject([{ name: 'a' }])
  })

  it('gives the items of a map, and knows a running one from a queued one', async () => {
    const parent_task_id = (await tasks({ status: 'waiting' }))[0]?.id
    const items = await tasks({ parent_task_id })
    expect(items.map(({ item }) => item)).toEqual([0, 1, 2])
    const rest = await tasks({ parent_task_id }, `, after_task => ${items[1]?.id}`)
    expect(rest).toMatchObject([{ item: 2 }])
    await database.db.query("select from fencepost.claim('w', array['graph.m'])")
    expect(await tasks({ parent_task_id, status: 'running' })).toMatchObject([{ item: 0 }])
    expect(await tasks({ parent_task_id, status: 'queued' })).toHaveLength(2)
  })

  it('refuses runs, tasks and filters that do not exist', async () => {
    await refused(database.db.query('select from fencepost.list_tasks(0)'), 'JE002')
    await refused(tasks({ parent_task_id: 0 }), 'JE002')
    await refused(tasks({}, ', after_task => 0'), 'JE002')
    await refused(tasks({ status: 'ready' }), 'JE003')
    await refused(tasks({ parent: 1 }), 'JE003')
    await refused(tasks({}, ', max => 0'), 'JE003')
  })
})

describe('list_approvals', () => {
  it('narrows by each key, newest first', async () => {
    await publish('asks', { x: { kind: 'approval' } })
    const [one_, two] = [await start('asks'), await start('asks', { tenant: 'acme' })]
    const found = (filter: object, more = '') =>
      column<number>(
        database.db,
        `select run_id from fencepost.list_approvals($1${more}) where not cut`,
        [json(filter)],
      )
    const [first = 0] = await column<number>(
      database.db,
      'select id from fencepost.approvals where run_id = $1',
      [one_],
    )
    await one(database.db, 'select fencepost.approve($1)', [first])
    expect(await found({})).toEqual([two, one_])
    expect(await found({ status: 'pending' })).toEqual([two])
    expect(await found({ status: 'approved', workflow: 'asks' })).toEqual([one_])
    expect(await found({ run_id: one_ })).toEqual([one_])
    expect(await found({ tenant: 'acme' })).toEqual([two])
    expect(await found({ workflow: 'never' })).toEqual([])
    expect(await found({}, ', max => 1')).toEqual([two])
    expect(await found({}, `, after => ${first}`)).toEqual([])
    await refused(found({ status: 'open' }), 'JE003')
    await refused(found({ task: 'x' }), 'JE003')
    await refused(found({}, ', max => 0'), 'JE003')
  })
})
