import type { Queryable } from '../../database/database.ts'
import { stats } from '../../database/engine.ts'

/** How the example stands, in a line; and whether it is done. */
export interface Progress {
  readonly line: string
  readonly done: boolean
}

/** How far the import has come; undefined before its first step is done. */
export async function progressOf(db: Queryable): Promise<Progress | undefined> {
  const rows = new Map((await stats(db)).map((row) => [row.type, row]))
  const chunks = rows.get('diamonds.chunk')
  if (chunks === undefined || chunks.enqueued_total === 0) return undefined
  const refused = rows.get('diamonds.row')
  const total = chunks.enqueued_total
  const loaded = total - chunks.pending - chunks.running - chunks.dead_letter
  const open = [chunks, refused].reduce(
    (sum, row) => sum + (row ? row.pending + row.running : 0),
    0,
  )
  const parts = [
    `${loaded} of ${total} chunks loaded`,
    `${chunks.running} running`,
    `${refused?.dead_letter ?? 0} rows refused`,
  ]
  return { line: `${bar(loaded / total)} ${parts.join(' · ')}`, done: open === 0 }
}

const WIDTH = 24

function bar(share: number): string {
  const full = Math.round(share * WIDTH)
  return `[${'█'.repeat(full)}${'░'.repeat(WIDTH - full)}]`
}
