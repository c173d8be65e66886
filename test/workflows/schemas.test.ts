import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { json } from '../../src/database/database.ts'
import { inputSchema } from '../../src/definitions/input-schema.ts'
import { freshType } from '../support/engine.ts'
import { publish, publishRaw, start } from '../support/runs.ts'
import { ownDatabase } from '../support/server.ts'
import { column, refused } from '../support/sql.ts'

const database = ownDatabase()
const db = () => database.db

/** What the database says of each value: null when it fits. */
const problems = (schema: unknown, values: readonly unknown[]) =>
  column<string | null>(
    db(),
    `select fencepost_private.schema_problem($1, v, 'input') from jsonb_array_elements($2::jsonb) with ordinality as e(v, n) order by n`,
    [json(schema), json(values)],
  )

const tree = {
  $ref: '#/$defs/node',
  $defs: {
    node: {
      type: 'object',
      required: ['v'],
      properties: { v: { type: 'integer' }, kids: { items: { $ref: '#/$defs/node' } } },
    },
    'a/b~c': { const: 1 },
  },
}

/** A name that the linter keeps objects from having. */
const THEN = 'then'

/** A schema, values that fit it, and values that do not. */
const cases: [schema: unknown, fit: unknown[], not: unknown[]][] = [
  [true, [1, null, {}], []],
  [false, [], [1, null, {}]],
  [{}, [1, null, {}], []],
  [{ type: 'integer' }, [1, 1.0, -3], [1.5, '1', null]],
  [{ type: ['null', 'object'] }, [null, {}], [[], 0]],
  [{ const: { a: [1] } }, [{ a: [1] }], [{ a: [1, 2] }, null]],
  [{ enum: [1, 'a', null] }, [1, 'a', null], [2, 'b', false]],
  [{ multipleOf: 0.01 }, [0, 1, 0.07, 'text'], [0.005]],
  [{ minimum: 1, exclusiveMaximum: 3 }, [1, 2.9, '9'], [0, 3]],
  [{ exclusiveMinimum: 1, maximum: 3 }, [1.1, 3], [1, 4]],
  [{ minLength: 2, maxLength: 3 }, ['ää', '💎💎', 7], ['a', 'abcd']],
  [{ pattern: '^a|z$' }, ['ab', 'yz', 1], ['ba']],
  [
    { prefixItems: [{ type: 'string' }, false], items: { type: 'number' } },
    [['a'], []],
    [['a', 1], [1]],
  ],
  [{ prefixItems: [true], items: false }, [[1], []], [[1, 2]]],
  [{ prefixItems: [{ type: 'string' }], items: { type: 'number' } }, [['a', 1]], [['a', 'b']]],
  [
    { items: { type: 'boolean' }, minItems: 1, maxItems: 2 },
    [[true], {}],
    [[], [1], [true, true, true]],
  ],
  [
    { uniqueItems: true },
    [[1, 2], [], [1, '1'], [{ a: 1 }, { a: 2 }]],
    [
      [1, 1.0],
      [
        { a: 1, b: 2 },
        { b: 2, a: 1 },
      ],
    ],
  ],
  [{ contains: { type: 'number' } }, [['a', 1]], [[], ['a']]],
  [{ contains: { type: 'number' }, minContains: 0, maxContains: 1 }, [[], ['a'], [1]], [[1, 2]]],
  [{ contains: { minimum: 5 }, minContains: 2 }, [[5, 6]], [[5, 4]]],
  [{ minProperties: 1, maxProperties: 2 }, [{ a: 1 }, []], [{}, { a: 1, b: 1, c: 1 }]],
  [{ required: ['a', 'b'] }, [{ a: null, b: 1 }, [], 'text'], [{ a: 1 }, {}]],
  [{ properties: { a: { type: 'string' } } }, [{ a: 'x', b: 1 }, {}], [{ a: 1 }]],
  [
    {
      properties: { a: true },
      patternProperties: { '^x': { type: 'number' } },
      additionalProperties: { type: 'string' },
    },
    [{ a: 1, x1: 2, b: 'c' }],
    [{ x1: 'a' }, { b: 2 }],
  ],
  [
    { patternProperties: { '^a': { minimum: 3 }, b$: { maximum: 5 } } },
    [{ ab: 4, c: 9 }],
    [{ ab: 2 }, { ab: 6 }],
  ],
  [{ properties: { a: true }, additionalProperties: false }, [{}, { a: 1 }], [{ b: 1 }]],
  [{ propertyNames: { maxLength: 2 } }, [{ ab: 1 }, 'text'], [{ abc: 1 }]],
  [
    { dependentRequired: { card: ['name', 'cvc'] } },
    [{}, { card: 1, name: 1, cvc: 1 }],
    [{ card: 1, name: 1 }],
  ],
  [
    {
      dependentSchemas: { card: { required: ['name'], properties: { name: { type: 'string' } } } },
    },
    [{ name: 1 }, { card: 1, name: 'x' }],
    [{ card: 1 }, { card: 1, name: 1 }],
  ],
  [{ allOf: [{ minimum: 1 }, { maximum: 3 }] }, [2], [0, 4]],
  [{ anyOf: [{ type: 'string' }, { minimum: 5 }] }, ['a', 5, null], [4]],
  [{ oneOf: [{ type: 'integer' }, { minimum: 2 }] }, [1, 2.5], [2, 1.5]],
  [{ not: { type: 'string' } }, [1], ['a']],
  [{ not: {} }, [], [1, null]],
  [
    {
      if: { properties: { kind: { const: 'a' } }, required: ['kind'] },
      [THEN]: { required: ['x'] },
      else: { required: ['y'] },
    },
    [{ kind: 'a', x: 1 }, { kind: 'b', y: 1 }, { y: 1 }],
    [{ kind: 'a', y: 1 }, { x: 1 }],
  ],
  [{ if: { minimum: 5 }, [THEN]: { multipleOf: 5 } }, [4, 10], [6]],
  [{ [THEN]: false, else: false }, [1], []],
  [tree, [{ v: 1 }, { v: 1, kids: [{ v: 2, kids: [] }] }], [{}, { v: 1, kids: [{ v: 'x' }] }]],
  [{ ...tree, $ref: '#/$defs/a~1b~0c' }, [1], [2]],
  [
    { $ref: '#/$defs/node', maxProperties: 1, $defs: tree.$defs },
    [{ v: 1 }],
    [{ v: 1, w: 2 }, { w: 1 }],
  ],
  [
    { properties: { next: { $ref: '#' } }, required: ['n'] },
    [{ n: 1, next: { n: 2 } }],
    [{ n: 1, next: {} }],
  ],
  [
    { properties: { old: { $ref: '#/definitions/n' } }, definitions: { n: { type: 'number' } } },
    [{ old: 1 }],
    [{ old: 'x' }],
  ],
  [
    { format: 'email', title: 'a name', 'x-own': { type: 'text' }, default: 7, $comment: '' },
    ['no email', 1],
    [],
  ],
]

describe('a JSON Schema', () => {
  it.each(cases)('%j', async (schema, fit, not) => {
    await publish(db(), { a: {} }, { input: schema })
    expect(await problems(schema, fit)).toEqual(fit.map(() => null))
    for (const problem of await problems(schema, not)) expect(problem).toMatch(/input/)
  })

  it('says where and why', async () => {
    const schema = {
      properties: {
        pay: {
          anyOf: [
            { required: ['card'] },
            { properties: { iban: { type: 'string' } }, required: ['iban'] },
          ],
        },
        tags: { propertyNames: { pattern: '^[a-z]+$' } },
        both: { oneOf: [true, true] },
        no: { not: { type: 'number' } },
      },
      dependentRequired: { a: ['b'] },
    }
    const values = [{ pay: { iban: 7 } }, { tags: { A: 1 } }, { both: 1 }, { no: 1 }, { a: 1 }]
    expect(await problems(schema, values)).toEqual([
      'input.pay fits nothing of anyOf: input.pay.card is required; or input.pay.iban must be of type string, received number',
      "the key 'A' of input.tags must match ^[a-z]+$",
      'input.both fits 2 schemas of oneOf, and must fit exactly one',
      'input.no must not fit {"type": "number"}',
      'input.b is required because of a',
    ])
  })

  it('that leads to itself comes to an end, and so does a value that is as deep', async () => {
    const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)])
    const nested = { items: { $ref: '#' } }
    expect(await problems(nested, [deep(40)])).toEqual([null])
    const { message } = await refused(problems(nested, [deep(2000)]), 'JE003')
    expect(message).toContain('more than 100 levels deep')
  })

  it('is what a run is started with, also with what zod makes of a union', async () => {
    const schema = inputSchema(z.object({ to: z.union([z.string(), z.array(z.string()).min(1)]) }))
    expect(JSON.stringify(schema)).toContain('anyOf')
    const workflow = await publish(db(), { a: {} }, { input: schema })
    await start(db(), workflow, { to: ['a'] })
    const { detail } = await refused(start(db(), workflow, { to: [] }), 'JE003')
    expect(detail).toContain('input.to fits nothing of anyOf')
  })
})

describe('refused when it is published, with the place', () => {
  it.each([
    [{ $ref: 'https://example.org/schema' }, 'input.$ref'],
    [{ $ref: '#/$defs/gone' }, 'input.$ref'],
    [{ $ref: '#name' }, 'input.$ref'],
    [{ items: { $ref: '#/properties/a' }, properties: { a: true } }, 'input.items.$ref'],
    [{ properties: { a: { $dynamicRef: '#x' } } }, 'input.properties.a.$dynamicRef'],
    [{ allOf: [true, { unevaluatedProperties: false }] }, 'input.allOf[1].unevaluatedProperties'],
    [{ not: { unevaluatedItems: false } }, 'input.not.unevaluatedItems'],
    [{ dependencies: { a: ['b'] } }, 'input.dependencies'],
    [{ items: true, additionalItems: false }, 'input.additionalItems'],
    [{ items: [{ type: 'string' }] }, 'input.items'],
    [{ anyOf: [] }, 'input.anyOf'],
    [{ oneOf: { type: 'string' } }, 'input.oneOf'],
    [{ $defs: { a: { type: 'text' } } }, 'input.$defs.a.type'],
    [{ multipleOf: 0 }, 'input.multipleOf'],
    [{ uniqueItems: 1 }, 'input.uniqueItems'],
    [{ minProperties: 1.5 }, 'input.minProperties'],
    [{ maxContains: '1' }, 'input.maxContains'],
    [{ exclusiveMinimum: true }, 'input.exclusiveMinimum'],
    [{ dependentRequired: { a: 'b' } }, 'input.dependentRequired'],
    [{ dependentSchemas: { a: 1 } }, 'input.dependentSchemas.a'],
    [{ patternProperties: { '(': true } }, 'input.patternProperties'],
    [{ if: 'x' }, 'input.if'],
    [{ propertyNames: [] }, 'input.propertyNames'],
  ])('%j', async (schema, place) => {
    const definition = { input: schema, tasks: { a: { type: 't' } } }
    const { detail } = await refused(publishRaw(db(), freshType('flow'), definition), 'JE008')
    expect(detail).toContain(`at ${place}: received`)
  })
})

describe('the database and zod agree on', () => {
  const node = z.object({
    v: z.number(),
    get kids() {
      return z.array(node).max(2).optional()
    },
  })
  const schemas: Record<string, z.ZodType> = {
    unions: z.object({
      a: z.union([z.string(), z.int(), z.null()]),
      b: z.array(z.int()).optional(),
    }),
    'discriminated unions': z.discriminatedUnion('k', [
      z.object({ k: z.literal('x'), a: z.number().gt(0) }),
      z.strictObject({ k: z.literal('y'), b: z.string().min(1).nullable() }),
    ]),
    tuples: z.object({ a: z.tuple([z.string(), z.int()], z.boolean()) }),
    records: z.record(z.string().regex(/^[a-k]$/), z.number().multipleOf(0.5)),
    'records of enums': z.partialRecord(z.enum(['a', 'b']), z.literal([1, 'x', true])),
    intersections: z.intersection(
      z.looseObject({ a: z.number() }),
      z.looseObject({ b: z.string() }),
    ),
    'the rest of an object': z.object({ a: z.number().optional() }).catchall(z.string()),
    recursion: node,
  }
  const leaf = fc.constantFrom<unknown>(null, true, 0, 1, 2.5, -1, '', 'x', 'y', 'ab')
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      leaf,
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('a', 'b', 'k', 'v', 'kids', 'zz'), tie('value'), {
        maxKeys: 3,
      }),
      fc.record({ k: fc.constantFrom('x', 'y'), a: leaf, b: leaf }, { requiredKeys: [] }),
      fc.record({ a: leaf, b: leaf }),
      fc.record({ a: fc.tuple(leaf, leaf, leaf) }),
      fc.record({ v: leaf, kids: fc.array(tie('value'), { maxLength: 3 }) }),
    ),
  }))

  it.each(Object.entries(schemas))('%s', async (_, schema) => {
    const values = fc.sample(value, { numRuns: 2000, seed: 7 })
    const expected = values.map((each) => schema.safeParse(each).success)
    const found = await problems(inputSchema(schema), values)
    const differ = values.filter((_, index) => (found[index] === null) !== expected[index])
    expect(differ).toEqual([])
    expect(new Set(expected).size).toBe(2)
  })
})
