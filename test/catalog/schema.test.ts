import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { currentText, unlisted } from '../../scripts/includes.mjs'
import { schemaSnapshot } from '../../src/database/snapshot.ts'
import { testDatabase } from '../support/server.ts'

it('migrations/schema.txt describes what sql/ makes (else: npm run db:dump)', async () => {
  await using database = await testDatabase()
  const committed = readFileSync(new URL('../../migrations/schema.txt', import.meta.url), 'utf8')
  expect(await schemaSnapshot(database.url)).toBe(committed)
})

it('every file of sql/ is listed in install.sql, and no migration is left uncommitted', () => {
  expect(unlisted()).toEqual([])
  expect(currentText()).toBe('')
})
