import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const KEPT = fileURLToPath(new URL('../.pinned/', import.meta.url))

/**
 * A file that a peer needs and no npm package carries: from GitHub, at a commit, with the SHA-256 that
 * it must have. It is kept in `bench/.pinned/`, where it may also be put by hand.
 */
export async function pinnedFile({ repository, commit, file, sha256 }) {
  const kept = path.join(KEPT, repository, commit, file)
  if (!existsSync(kept)) {
    const content = await download(
      `https://raw.githubusercontent.com/${repository}/${commit}/${file}`,
    )
    mkdirSync(path.dirname(kept), { recursive: true })
    writeFileSync(kept, content)
  }
  const content = readFileSync(kept, 'utf8')
  if (createHash('sha256').update(content).digest('hex') !== sha256) {
    throw new Error(`${kept} is not the ${file} that was expected`)
  }
  return content
}

async function download(url) {
  try {
    const response = await fetch(url)
    if (!response.ok) throw new Error(`it answered ${response.status}`)
    return await response.text()
  } catch (error) {
    throw new Error(`${url} could not be fetched: ${error.cause?.message ?? error.message}`)
  }
}
