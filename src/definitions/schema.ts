// What any validation library that follows Standard Schema v1 (zod, valibot, arktype, ...) offers.

/** A schema that reads a value of type `Input` and gives one of type `Output`. */
export interface Schema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => Validation<Output> | Promise<Validation<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

/** What a schema says of a value. */
export type Validation<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] }

/** One thing that is wrong with a value. */
export interface Issue {
  readonly message: string
  /** Where: the keys that lead there. */
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** True for what follows Standard Schema v1. */
export function isSchema(value: unknown): value is Schema {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return false
  const standard = (value as Partial<Schema>)['~standard']
  return typeof standard?.validate === 'function'
}

/** The issues of a value in one line: `to: Invalid email; template: Required`. */
export function describeIssues(issues: readonly Issue[]): string {
  return issues.slice(0, 10).map(describe).join('; ') + (issues.length > 10 ? '; …' : '')
}

function describe({ message, path = [] }: Issue): string {
  const keys = path.map((part) => String(typeof part === 'object' ? part.key : part))
  return keys.length === 0 ? message : `${keys.join('.')}: ${message}`
}
