import type { ErrorEntry } from '../../errors.ts'
import { titleOf } from '../problem.ts'
import { escapeHtml, prose, shell } from './html.ts'

/** The page of one code: what it means, and where more is said. */
export function problemPage(entry: ErrorEntry): string {
  const { code, name, status, meaning } = entry
  return shell(
    `${code} ${titleOf(entry)}`,
    `<h1>${escapeHtml(titleOf(entry))}</h1>
<p class="dim"><code>${escapeHtml(code)}</code> · <code>${escapeHtml(name)}</code> · HTTP ${status}</p>
<p>${prose(meaning)}</p>
<p>A problem's <code>detail</code> says what was wrong and what was received, its <code>hint</code> what would be
right. In SQL the same error has this code as its SQLSTATE, with the same detail and hint.</p>
<p><a href="/docs">All routes</a></p>`,
  )
}
