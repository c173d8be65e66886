import { clip, width } from './table.ts'
import type { Style } from './terminal.ts'

/** A part of a line and how it is painted. */
export type Span = readonly [text: string, paint?: keyof Style]

/** A painted line of at most so many columns. */
export function painted(spans: readonly Span[], columns: number, style: Style): string {
  let left = columns
  let line = ''
  for (const [text, paint] of spans) {
    if (left <= 0) break
    if (text === '') continue
    const part = clip(text, left)
    line += paint === undefined ? part : style[paint](part)
    left -= width(text)
  }
  return line
}
