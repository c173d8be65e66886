import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { describe, expect, it } from 'vitest'
import { parseCsv } from '../../examples/etl/csv.ts'
import { diamondOf } from '../../examples/etl/diamond.ts'

const file = createRequire(import.meta.url).resolve('@observablehq/sample-datasets/diamonds.csv')

describe('the reader of CSV', () => {
  it('takes quotes, commas, line breaks and empty fields as they are meant', () => {
    expect(parseCsv('a,b,c\r\n1,"x, ""y""\nz",\n,,"\n"')).toEqual([
      { a: '1', b: 'x, "y"\nz', c: '' },
      { a: '', b: '', c: '\n' },
    ])
    expect(parseCsv('a\n1\n')).toEqual([{ a: '1' }])
    expect(parseCsv('a,b')).toEqual([])
  })

  it('refuses what is none', () => {
    expect(() => parseCsv('a,b\n"x"y,1')).toThrow(/line 2 is not CSV/)
  })
})

describe('the diamonds', () => {
  const outcomes = parseCsv(readFileSync(file, 'utf8')).map((fields, row) => diamondOf(row, fields))
  const reasons = outcomes.flatMap((each) => ('reason' in each ? [each.reason] : []))

  it('are 53,940, of which 71 contradict themselves', () => {
    expect(outcomes).toHaveLength(53_940)
    expect(reasons).toHaveLength(71)
    expect(reasons).toContain('z: a diamond has a size, found 0 mm')
    expect(reasons).toContain('depth: stated as 58.9 %, but 8.09 × 58.9 × 8.06 mm make 24.1 %')
  })

  it('are transformed', () => {
    expect(outcomes[0]).toEqual({
      diamond: {
        row: 0,
        carat: 0.23,
        cut: 'Ideal',
        color: 'E',
        clarity: 'SI2',
        price_usd: 326,
        usd_per_carat: 1417,
        volume_mm3: 38,
      },
    })
  })

  it('say which field is not what it should be', () => {
    const fields = { carat: 'heavy', cut: 'Ideal', color: 'E', clarity: 'SI2' }
    expect(diamondOf(1, fields)).toEqual({ reason: expect.stringMatching(/^carat: /) })
    expect(diamondOf(1, { ...fields, carat: '1', cut: 'Round' })).toEqual({
      reason: expect.stringMatching(/^cut: /),
    })
  })
})
