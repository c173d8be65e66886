import { z } from 'zod'
import type { Schema } from './schema.ts'

/**
 * The JSON Schema of an input, for the database to check; undefined for schemas of other libraries than
 * zod, which are checked in TypeScript alone.
 */
export function inputSchema(schema: Schema): Record<string, unknown> | undefined {
  if (schema['~standard'].vendor !== 'zod') return undefined
  const { $schema: _, ...rest } = z.toJSONSchema(schema as unknown as z.core.$ZodType, {
    unrepresentable: 'any',
    io: 'input',
    override({ zodSchema, jsonSchema }) {
      // PostgreSQL would read them otherwise, or not at all: they stay a matter of TypeScript.
      if (!patternsOf(zodSchema).every(isPortable)) delete jsonSchema.pattern
    },
  })
  return rest
}

/** The regular expressions of a schema of texts. */
function patternsOf(schema: z.core.$ZodType): RegExp[] {
  const { pattern, checks = [] } = schema._zod.def as z.core.$ZodTypeDef & { pattern?: unknown }
  const all = [pattern, ...checks.map((each) => (each._zod.def as { pattern?: unknown }).pattern)]
  return all.filter((each) => each instanceof RegExp)
}

/** True when PostgreSQL reads a regular expression as JavaScript does. */
function isPortable({ flags, source }: RegExp): boolean {
  return !/[ims]/.test(flags) && !/\\[bBkpPcu]|\(\?<[^=!]/.test(source)
}
