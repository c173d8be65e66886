// Writes docs/sql-reference.md from the files of sql/: what stands above each public function, its signature, and the
// comments of the views. With --check it only says whether the page is up to date.

import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { root } from './includes.mjs'

const page = path.join(root, 'docs', 'sql-reference.md')
const sections = {
  jobs: 'Jobs',
  flow: 'Flow',
  workflows: 'Workflows',
  outbox: 'Event log and webhooks',
  events: 'Events',
  operate: 'Operating',
  access: 'Access',
  views: 'Views',
  core: 'Other',
}

const list = readFileSync(path.join(root, 'sql', 'install.sql'), 'utf8')
const files = [...list.matchAll(/^--!include (.+\.sql)$/gm)].map(([, name]) => name)
const texts = files.map((name) => [
  name.split('/')[0],
  readFileSync(path.join(root, 'sql', name), 'utf8'),
])

const parts = [
  '# SQL reference',
  '',
  'Made from `sql/` by `npm run docs:sql`; in psql, `\\df+ fencepost.*` and `\\d+ fencepost.jobs` say the same. Call with named',
  'arguments (`priority => 8`): the names of parameters are stable, their order is not. [sql/README.md](../sql/README.md) explains the engine.',
]
for (const [directory, title] of Object.entries(sections)) {
  const entries = texts
    .filter(([where]) => where === directory)
    .flatMap(([, text]) => (directory === 'views' ? [] : functions(text)).concat(views(text)))
    .sort((a, b) => a.name.localeCompare(b.name))
  if (entries.length === 0) continue
  parts.push('', `## ${title}`)
  for (const { name, code, prose } of entries) {
    parts.push('', `### ${name}`, '', ...(code ? ['```sql', code, '```', ''] : []), prose)
  }
}
const text = `${parts.join('\n')}\n`

if (!process.argv.includes('--check')) {
  writeFileSync(page, text)
} else if (readFileSync(page, 'utf8') !== text) {
  console.error('docs/sql-reference.md is not up to date: run npm run docs:sql')
  process.exitCode = 1
}

/** The public functions of a file: name, signature, and the comment above. */
function functions(text) {
  const pattern =
    /((?:^--.*\n)*)^create function fencepost\.(\w+)(\([\s\S]*?\))\s*(returns [\s\S]*?)?\n?\s*language/gm
  return [...text.matchAll(pattern)].map(([, above, name, parameters, returns]) => ({
    name,
    code: `fencepost.${name}${parameters}${returns ? `\n  ${returns.trim().replace(/\s*\n\s*/g, ' ')}` : ''}`,
    prose: markdown(above) || comment(text, `function fencepost\\.${name}\\([^)]*\\)`),
  }))
}

/** The public views of a file, with their comments. */
function views(text) {
  return [...text.matchAll(/^create (?:or replace )?view fencepost\.(\w+)/gm)].map(([, name]) => ({
    name,
    prose: comment(text, `view fencepost\\.${name}`),
  }))
}

function comment(text, object) {
  const found = text.match(new RegExp(`comment on ${object}\\s+is '((?:[^']|'')*)'`))
  return found ? found[1].replaceAll("''", "'") : ''
}

/** A comment block as Markdown: indented lines keep their form. */
function markdown(block) {
  const lines = block.split('\n').map((line) => line.replace(/^-- ?/, '').trimEnd())
  const result = []
  let fenced = false
  for (const line of lines) {
    const indented = /^ {2,}\S/.test(line)
    if (indented !== fenced) {
      result.push(indented ? '\n```text' : '```\n')
      fenced = indented
    }
    result.push(line)
  }
  if (fenced) result.push('```')
  return result
    .join('\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim()
}
