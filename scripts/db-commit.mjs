// npm run db:commit -- --message "…": graphile-migrate tries migrations/current.sql on a shadow database of a
// server of its own and adds it to migrations/committed/, which never changes afterwards.

import { spawnSync } from 'node:child_process'
import { chmodSync, readdirSync } from 'node:fs'
import path from 'node:path'
import process from 'node:process'
import { root } from './includes.mjs'
import { withServer } from './scratch.mjs'

const program = path.join(root, 'node_modules/graphile-migrate/dist/cli.js')

const committed = path.join(root, 'migrations/committed')

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

// graphile-migrate makes them readable to nobody else, who then cannot run a checkout of root's.
for (const name of readdirSync(committed)) chmodSync(path.join(committed, name), 0o644)
