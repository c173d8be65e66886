/** A JSON schema, as far as the reference reads it. */
export interface JsonSchema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly format?: string
  readonly description?: string
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly items?: JsonSchema
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly default?: unknown
  readonly example?: unknown
  readonly allOf?: readonly JsonSchema[]
  readonly anyOf?: readonly JsonSchema[]
  readonly oneOf?: readonly JsonSchema[]
}

/** The schemas that others refer to by name. */
export type Named = Readonly<Record<string, JsonSchema>>

/** A schema's fields by name, those of the schemas that it is made of too. */
export function fieldsOf(schema: JsonSchema, named: Named): [string, JsonSchema, boolean][] {
  const {
    properties = {},
    required = [],
    allOf = [],
    anyOf = [],
    oneOf = [],
  } = follow(schema, named)
  const own = Object.entries(properties).map(([name, each]): [string, JsonSchema, boolean] => [
    name,
    each,
    required.includes(name),
  ])
  const [first] = [...anyOf, ...oneOf]
  const parts = first === undefined ? allOf : [...allOf, first]
  return [...parts.flatMap((part) => fieldsOf(part, named)), ...own]
}

/** A type in a few words: `integer 0–9, default 5`. */
export function typeOf(schema: JsonSchema): string {
  if (schema.$ref !== undefined) return nameOf(schema.$ref)
  const choices = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]
  const named = schema.allOf?.find(({ $ref }) => $ref !== undefined)
  const base =
    schema.const !== undefined
      ? JSON.stringify(schema.const)
      : schema.enum !== undefined
        ? schema.enum.map((each) => JSON.stringify(each)).join(' | ')
        : choices.length > 0
          ? choices.map(typeOf).join(' or ')
          : named !== undefined
            ? typeOf(named)
            : plainType(schema)
  const range = schema.minimum === undefined ? '' : ` ${schema.minimum}–${schema.maximum ?? ''}`
  const standard = schema.default === undefined ? '' : `, default ${JSON.stringify(schema.default)}`
  return base + range + standard
}

/** A value that fits the schema, made of its examples. */
export function exampleOf(schema: JsonSchema, named: Named): unknown {
  const plain = follow(schema, named)
  if (plain.example !== undefined) return plain.example
  if (plain.default !== undefined) return plain.default
  if (plain.enum !== undefined) return plain.enum[0]
  if (plain.items !== undefined) return [exampleOf(plain.items, named)]
  const fields = fieldsOf(plain, named).filter(([, , required]) => required)
  if (fields.length > 0) {
    return Object.fromEntries(fields.map(([name, each]) => [name, exampleOf(each, named)]))
  }
  const type = [plain.type ?? 'object'].flat()[0]
  return { string: 'text', integer: 1, number: 1, boolean: true, array: [] }[type ?? ''] ?? {}
}

function follow(schema: JsonSchema, named: Named): JsonSchema {
  return schema.$ref === undefined ? schema : (named[nameOf(schema.$ref)] ?? schema)
}

function nameOf(ref: string): string {
  return ref.slice(ref.lastIndexOf('/') + 1)
}

function plainType(schema: JsonSchema): string {
  const types = [schema.type ?? 'any JSON'].flat()
  const [type = 'any JSON'] = types
  if (type === 'array' && schema.items !== undefined) return `list of ${typeOf(schema.items)}`
  return types
    .map((each) => (each === 'string' && schema.format ? schema.format : each))
    .join(' or ')
}
