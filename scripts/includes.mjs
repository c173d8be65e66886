// The `--!include` lines of migrations, expanded as graphile-migrate does it.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const sql = path.join(root, 'sql')
const INCLUDE = /^--![ \t]*include[ \t]+(.*\.sql)[ \t]*$/gm

/** The text with each include line replaced by its file, marked at both ends. */
export function expand(text) {
  return text.replace(INCLUDE, (_, name) => {
    const content = readFileSync(path.join(sql, name), 'utf8')
    return `--! Included ${name}\n${expand(content).trim()}\n--! EndIncluded ${name}`
  })
}

/** The engine as `sql/install.sql` lists it. */
export function installText() {
  return expand(readFileSync(path.join(sql, 'install.sql'), 'utf8'))
}

/** The files of sql/ that `sql/install.sql` does not list. Throws when it lists one twice. */
export function unlisted() {
  const list = readFileSync(path.join(sql, 'install.sql'), 'utf8')
  const listed = [...list.matchAll(INCLUDE)].map(([, name]) => name)
  const twice = listed.filter((name, index) => listed.indexOf(name) !== index)
  if (twice.length > 0) throw new Error(`sql/install.sql lists twice: ${twice.join(', ')}`)
  return readdirSync(sql, { recursive: true })
    .map((name) => name.split(path.sep).join('/'))
    .filter((name) => name.endsWith('.sql') && name !== 'install.sql' && !listed.includes(name))
    .sort()
}

/** Lists a file after the last one of its directory, or at the end; whether the order suits is seen at the install. */
export function enlist(name) {
  const file = path.join(sql, 'install.sql')
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n')
  const neighbour = `--!include ${path.posix.dirname(name)}/`
  const last = lines.findLastIndex((line) => line.startsWith(neighbour))
  lines.splice(last === -1 ? lines.length : last + 1, 0, `--!include ${name}`)
  writeFileSync(file, `${lines.join('\n')}\n`)
}

/** What `migrations/current.sql` holds beyond comments, expanded; empty when it holds nothing. */
export function currentText() {
  const text = expand(readFileSync(path.join(root, 'migrations/current.sql'), 'utf8'))
  return text.replace(/^\s*--(?!!).*$/gm, '').trim() === '' ? '' : text
}
