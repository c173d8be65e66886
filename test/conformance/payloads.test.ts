import { describe, expect, it } from 'vitest'
import { drivers } from './drivers.ts'
import { Stage } from './stage.ts'

/** What has gone wrong somewhere, sometime, between a database, a shell and a program. */
const AWKWARD = {
  empty: '',
  unicode: 'Grüße, 世界, 👩‍🚀, \u202eright to left',
  quotes: `it's "quoted" and \`ticked\``,
  backslashes: 'C:\\new\\table \\n \\" \\\\',
  newlines: 'one\ntwo\r\nthree\u2028four\n',
  separators: '|a|b|\t|,;|',
  shell: `$HOME $(id) \${PATH} ; rm -rf . & > x < y * ? ~ ! #`,
  sql: `'; drop table job; -- :id :'token' :"name" \\gexec $$ $1 %s`,
  control: '\u0001\u0007\u001b[31m\u007f',
  text: 'null',
  number: '007',
  numbers: [0, -1, 1.5, 1e21, 9007199254740991],
  words: [true, false, null],
  nested: { '': { 'a b': [[[]], {}, [{}]] } },
}

describe.each(drivers)('the $name worker', (driver) => {
  const stage = new Stage(driver)

  it('hands the payload over and the result back, unharmed', async () => {
    const id = await stage.enqueue({ do: 'echo', key: 'awkward', value: AWKWARD })
    await stage.start()
    const job = await stage.reach(id, 'completed')
    expect(job.result).toEqual({ echo: AWKWARD })
  })

  it('knows JSON from its text: what is encoded, is encoded once', async () => {
    const payloads = ['"quoted" | text', '{"a": 1}', 42, true, null, [1, 'two', null], {}]
    const ids: number[] = []
    for (const payload of payloads) ids.push(await stage.enqueue(payload))
    await stage.start()
    for (const [index, id] of ids.entries()) {
      const job = await stage.reach(id, 'completed')
      expect(job.result).toEqual({ echo: payloads[index] })
    }
  })

  it('takes a payload and gives a result of nearly a mebibyte', async () => {
    const value = 'naïve | "huge" '.repeat(55_000)
    const id = await stage.enqueue({ do: 'echo', key: 'huge', value })
    await stage.start()
    const { result } = await stage.reach(id, 'completed')
    expect((result as { echo: string }).echo === value).toBe(true)
  })
})
