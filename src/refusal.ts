import { DatabaseError } from './database/database.ts'
import { schemaMisfit } from './database/errors.ts'
import { FencepostError } from './errors.ts'

/**
 * What the server refused before a function of ours could look at it, as an error of the catalogue:
 * a value that no parameter of that kind holds is JE003, a role that may not is JE009, a schema that lacks what we call
 * is JE011.
 * Anything else is unchanged.
 */
export function asRefusal(error: unknown): unknown {
  if (!(error instanceof DatabaseError)) return error
  if (error.code === '42501') {
    return new FencepostError('JE009', 'the role of this connection may not do that', {
      detail: error.message,
      hint: 'The role lacks a grant, which the owner of the schema can give.',
      cause: error,
    })
  }
  switch (error.code.slice(0, 2)) {
    case '22': // data exception
    case '54': // nested too deeply, too long
      return new FencepostError('JE003', error.message, {
        detail: error.detail,
        hint: error.hint ?? `PostgreSQL calls it ${error.code}.`,
        cause: error,
      })
    case '3F': // no such schema
    case '42': // no such function, table or column
      return schemaMisfit(error)
    default:
      return error
  }
}
