import { afterEach, describe, expect, it } from 'vitest'
import { begin, expectSound, publish, start, type TaskSpec } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'

const database = ownDatabase()
const db = () => database.db
afterEach(() => expectSound(db()))

describe('conditions', () => {
  const input = {
    n: 2,
    yes: true,
    no: false,
    nil: null,
    text: 'hey',
    list: [1, 3],
    zero: 0,
    day: '2024-01-01',
  }

  it.each([
    ['$.input.n > 1', true],
    ['$.input.n > 2', false],
    ['$.input.yes == true', true],
    ['$.input.no == true', false],
    ['$.input.nil > 1', false],
    ['$.input.nil != 1', true],
    ['$.input.missing > 1', false],
    ['$.input.missing.deeper.double() > 1', false],
    ['exists($.input.nil)', true],
    ['exists($.input.missing)', false],
    ['($.input.text > 1) is unknown', true],
    ['!(exists($.input.text)) && $.input.text > 1', false],
    ['$.input.list[*] > 2', true],
    ['$.input.text like_regex "^h"', true],
    ['$.input.day.datetime() < "2024-02-01T00:00:00+00:00".datetime()', true],
    ['$.run.id > 0', true],
    ['$.tasks.a == 3', true],
    ['$.errors.a == "x"', false],
  ])('%s is %s', async (when, expected) => {
    const run = await begin(db(), { a: {}, b: { after: ['a'], when } }, input)
    await run.complete('a', 3)
    expect((await run.task('b')).status).toBe(expected ? 'queued' : 'skipped')
  })

  it.each([
    ['$.input.text > 1', '$."input"."text" is "hey"'],
    ['$.input.text.double() > 1', '$."input"."text" is "hey"'],
    ['strict $.input.missing == 1', '$."input"."missing" is nothing'],
    ['$.input.n / $.input.zero > 1', '$."input"."n" is 2, $."input"."zero" is 0'],
    ['$.input.n like_regex "^h"', '$."input"."n" is 2'],
    ['$.input.day.datetime("bogus") < "2024-02-01".datetime()', 'is "2024-01-01" ('],
    ['$.tasks.a == "$.input.n"', '$."tasks"."a" is 3'],
  ])(
    '%s is neither true nor false: its task fails, and what it guards stays shut',
    async (when, told) => {
      const run = await begin(
        db(),
        { a: {}, b: { kind: 'approval', after: ['a'], when }, c: { after: ['a', 'b'] } },
        input,
      )
      await run.complete('a', 3)
      expect(await run.statuses()).toEqual({ a: 'completed', b: 'failed', c: 'pending' })
      expect(await run.status()).toBe('failed')
      const { error } = await run.task('b')
      expect(error).toMatch(/^its condition is neither true nor false: .+ where /)
      expect(error).toContain(told)
    },
  )

  it('that cannot be decided follow the failure policy of their task', async () => {
    const run = await begin(
      db(),
      {
        a: { when: '$.input.amount > 1000', on_failure: 'continue' },
        b: { after: ['a'], when: 'exists($.errors.a)' },
      },
      { amount: '5000' },
    )
    expect(await run.statuses()).toEqual({ a: 'failed', b: 'queued' })
  })

  it('mean the same in every time zone', async () => {
    const tasks: Record<string, TaskSpec> = {
      when: { when: '$.input.day.datetime() == "2024-01-01T00:00:00+00:00".datetime()' },
      until: { kind: 'timer', until: '$.input.day' },
    }
    const workflow = await publish(db(), tasks)
    await db().transaction(async (tx) => {
      await tx.query("set local timezone = 'America/New_York'")
      const run = await start(tx, workflow, { day: '2024-01-01' })
      expect(await run.statuses()).toEqual({ when: 'queued', until: 'completed' })
      expect((await run.task('until')).output).toBe('2024-01-01T00:00:00+00:00')
    })
  })
})
