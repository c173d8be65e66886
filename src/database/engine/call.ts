import type { Queryable, QueryOptions } from '../database.ts'
import { type FunctionName, type ParameterName, signatures } from './signatures.ts'

/** Arguments by parameter name. One that is left out or undefined takes the default that SQL gives it. */
export type Arguments<Name extends FunctionName> = {
  readonly [Parameter in ParameterName<Name>]?: unknown
}

/** A statement that calls a function, and its parameters. */
export interface Call {
  readonly text: string
  readonly params: readonly unknown[]
}

/** A call of a function of the schema `fencepost` in named notation. */
export function call<Name extends FunctionName>(name: Name, args: Arguments<Name>): Call {
  const given = args as Readonly<Record<string, unknown>>
  const names: string[] = []
  const params: unknown[] = []
  for (const parameter of signatures[name] as readonly string[]) {
    if (given[parameter] === undefined) continue
    names.push(parameter)
    params.push(given[parameter])
  }
  return { text: textOf(name, names), params }
}

/** The rows of a function that returns a table. */
export function rows<Row>(db: Queryable, call: Call, options?: QueryOptions): Promise<Row[]> {
  return db.query<Row>(call.text, call.params, options)
}

/** The value of a function that returns one. */
export async function value<Value>(
  db: Queryable,
  call: Call,
  options?: QueryOptions,
): Promise<Value> {
  const [row] = await db.query<Record<string, Value>>(call.text, call.params, options)
  return Object.values(row as Record<string, Value>)[0] as Value
}

/** Calls a function for its effect. */
export async function perform(db: Queryable, call: Call, options?: QueryOptions): Promise<void> {
  await db.query(call.text, call.params, options)
}

/** Texts made so far: equal calls send equal texts, which the server prepares once a session. */
const texts = new Map<string, string>()

function textOf(name: FunctionName, parameters: readonly string[]): string {
  const key = `${name} ${parameters.join(' ')}`
  let text = texts.get(key)
  if (text === undefined) {
    const list = parameters.map((parameter, index) => `${parameter} => $${index + 1}`)
    text = `select * from fencepost.${name}(${list.join(', ')})`
    texts.set(key, text)
  }
  return text
}
