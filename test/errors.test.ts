import { describe, expect, it } from 'vitest'
import { errorCatalogue, FencepostError, isErrorCode } from '../src/errors.ts'
import { ownDatabase } from './support/server.ts'

const database = ownDatabase()

describe('the catalogue of errors', () => {
  it('is the one that SQL has', async () => {
    const rows = await database.db.query('select code, name, meaning from fencepost.error_codes')
    expect(errorCatalogue.map(({ code, name, meaning }) => ({ code, name, meaning }))).toEqual(rows)
  })

  it.each(errorCatalogue)('$code makes an error', ({ code, name, status }) => {
    const cause = new Error('beneath')
    const error = new FencepostError(code, 'what', { detail: 'got', hint: 'do', cause })
    expect(error).toMatchObject({
      code,
      name,
      status,
      message: 'what',
      detail: 'got',
      hint: 'do',
      cause,
    })
    expect(String(error)).toBe(`${name}: what`)
    expect(isErrorCode(code)).toBe(true)
  })

  it('has no other codes', () => {
    expect(isErrorCode('JE999')).toBe(false)
    expect(isErrorCode('23505')).toBe(false)
    expect(isErrorCode(undefined)).toBe(false)
  })
})
