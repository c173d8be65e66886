import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { redisVersion } from './redis.mjs'

const bench = new URL('../', import.meta.url)

/** The version of a system's package, as installed: ours from the repository. */
export function versionOf(system) {
  if (system.package === undefined) return undefined
  const file = fileURLToPath(
    system.package === 'fencepost'
      ? new URL('../package.json', bench)
      : new URL(`node_modules/${system.package}/package.json`, bench),
  )
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).version : undefined
}

export const storeVersions = (postgres) => ({ postgres, redis: redisVersion() })
