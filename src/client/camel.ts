/** `last_error` as `lastError`. */
export type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name

/** A row with its columns in camel case, as TypeScript writes names; values as they are. */
export type Camelized<Row> = {
  readonly [Name in keyof Row as Name extends string ? CamelCase<Name> : Name]: Row[Name]
}

const names = new Map<string, string>()

function camelCase(name: string): string {
  let known = names.get(name)
  if (known === undefined) {
    known = name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
    names.set(name, known)
  }
  return known
}

/** A row with its columns in camel case. */
export function camelized<Row extends object>(row: Row): Camelized<Row> {
  const entries = Object.entries(row).map(([name, value]) => [camelCase(name), value])
  return Object.fromEntries(entries) as Camelized<Row>
}

/** A key in snake case, as SQL writes names. */
export function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
