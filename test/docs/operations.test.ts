import { existsSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { runStatements } from '../../src/database/console.ts'
import { enqueue, freshType, maintain } from '../support/engine.ts'
import { createConsumer } from '../support/outbox.ts'
import { restoreAsDump } from '../support/restored.ts'
import { testDatabase } from '../support/server.ts'
import { column, one } from '../support/sql.ts'
import { linksOf, root, snippetsOf } from './snippets.ts'

const RESTORING = 'docs/operations/restoring.md'

describe('restoring from a dump', () => {
  it('in place of the old server, and as a copy that delivers nothing', async () => {
    const [inPlace, asCopy] = snippetsOf(RESTORING).map(({ code }) => code)
    await using database = await testDatabase()
    const { db, url } = database
    await enqueue(db, freshType())
    await createConsumer(db, 'kafka')
    await db.query(`select fencepost.create_webhook('billing', 'https://example.com')`)

    await restoreAsDump(db, 100)
    await runStatements(url, inPlace ?? '')
    await maintain(db)
    expect(await column(db, 'select name from fencepost.consumers order by 1')).toHaveLength(2)

    await restoreAsDump(db, 100)
    const results = await runStatements(url, asCopy ?? '')
    expect(results.at(-1)?.rows.at(-1)?.[1]).toBe(0)
    await maintain(db)
    expect(await column(db, 'select name from fencepost.consumers')).toEqual(['webhook:billing'])
    expect(await one(db, 'select bool_and(paused) from fencepost.types')).toBe(true)
  })
})

it.each([RESTORING, 'docs/operations/what-happens-when.md'])(
  '%s links to files that exist',
  (page) => {
    const missing = linksOf(page).filter(
      (file) => !existsSync(path.join(root, path.dirname(page), file)),
    )
    expect(missing).toEqual([])
  },
)
