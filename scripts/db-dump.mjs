// npm run db:dump: writes migrations/schema.txt, the schema as sql/ makes it, for people to read in a diff.

import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { installText, root } from './includes.mjs'
import { schemaSnapshot, withServer } from './scratch.mjs'

await withServer(async ({ database }) => {
  const url = await database('fresh', installText())
  writeFileSync(path.join(root, 'migrations/schema.txt'), await schemaSnapshot(url))
})
