// npm run db:check: a database made by the committed migrations, then migrations/current.sql, equals one made
// from sql/, and migrations/schema.txt describes it.

import { readFileSync } from 'node:fs'
import path from 'node:path'
import process from 'node:process'
import { currentText, installText, root, unlisted } from './includes.mjs'
import { execute, migrate, schemaSnapshot, withServer } from './scratch.mjs'

/** How much of a difference is told. */
const LINES = 20

const complaints = unlisted().map((name) => `sql/install.sql does not list ${name}`)
await withServer(async ({ database }) => {
  const fresh = await database('fresh', installText())
  const upgraded = await database('upgraded')
  await migrate(upgraded)
  if (currentText() !== '') await execute(upgraded, currentText())
  const [wanted, found] = await Promise.all(
    [fresh, upgraded].map((url) => schemaSnapshot(url, { exact: true })),
  )
  complaints.push(...difference(found, wanted, 'the migrations', 'sql/'))
  const committed = readFileSync(path.join(root, 'migrations/schema.txt'), 'utf8')
  const described = await schemaSnapshot(fresh)
  if (committed !== described) complaints.push('migrations/schema.txt is old: npm run db:dump')
})
for (const complaint of complaints) process.stderr.write(`${complaint}\n`)
process.exitCode = complaints.length > 0 ? 1 : 0

function difference(left, right, leftName, rightName) {
  const [lines, others] = [left, right].map((text) => text.split('\n'))
  const only = (mine, theirs, name) => {
    const known = new Set(theirs)
    const odd = mine.filter((line) => !known.has(line)).map((line) => `only in ${name}: ${line}`)
    return odd.length > LINES ? [...odd.slice(0, LINES), `… and ${odd.length - LINES} more`] : odd
  }
  return [...only(lines, others, leftName), ...only(others, lines, rightName)]
}
