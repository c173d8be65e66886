// npm run db:commit -- --message "…": graphile-migrate tries migrations/current.sql on a shadow database of a
// server of its own and adds it to migrations/committed/, which never changes afterwards.

import { spawnSync } from 'node:child_process'
import path from 'node:path'
import process from 'node:process'
import { root } from './includes.mjs'
import { withServer } from './scratch.mjs'

const program = path.join(root, 'node_modules/graphile-migrate/dist/cli.js')

process.exitCode = await withServer(async ({ address, database }) => {
  await database('authoring')
  const { status } = spawnSync(process.execPath, [program, 'commit', ...process.argv.slice(2)], {
    cwd: root,
    stdio: 'inherit',
    env: {
      ...process.env,
      DATABASE_URL: address('authoring'),
      SHADOW_DATABASE_URL: address('shadow'),
      ROOT_DATABASE_URL: address('postgres'),
    },
  })
  return status ?? 1
})
