// npm run db:rebuild: writes migrations/committed/000001-engine.sql anew from sql/. Only before the first
// release: after that a committed migration never changes, and `npm run db:commit` adds the next one.

import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import process from 'node:process'
import { build } from './build.mjs'
import { enlist, installText, root, unlisted } from './includes.mjs'

const committed = path.join(root, 'migrations/committed')
const first = path.join(committed, '000001-engine.sql')

try {
  const others = readdirSync(committed).filter((name) => !name.startsWith('000001'))
  if (others.length > 0) throw new Error(`Released already: ${others.join(', ')} follow the first.`)
  const { formatMigration } = await import('../dist/database/migrations.js').catch(async () => {
    await build()
    return import('../dist/database/migrations.js')
  })
  for (const name of unlisted()) {
    enlist(name)
    process.stdout.write(`sql/install.sql: added ${name}\n`)
  }
  const text = formatMigration(installText(), undefined)
  rmSync(first, { force: true }) // graphile-migrate makes its files read-only
  writeFileSync(first, text)
  process.stdout.write(`${path.relative(root, first)}: ${text.split('\n').length} lines\n`)
} catch (error) {
  process.stderr.write(`${error.message}\n`)
  process.exit(1)
}
