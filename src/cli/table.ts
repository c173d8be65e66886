import { jsonText } from '../json-text.ts'
import type { Terminal } from './terminal.ts'

/** Rows as a table for people: these columns of them, in this order. */
export function table(
  rows: readonly Readonly<Record<string, unknown>>[],
  terminal: Pick<Terminal, 'style' | 'width'>,
  columns: readonly string[] = Object.keys(rows[0] ?? {}),
): string {
  return grid(
    columns,
    rows.map((row) => columns.map((column) => row[column])),
    terminal,
  )
}

/** A head, a line a row; numbers to the right, no line wider than the screen. */
export function grid(
  head: readonly string[],
  rows: readonly (readonly unknown[])[],
  terminal: Pick<Terminal, 'style' | 'width'>,
): string {
  if (rows.length === 0) return terminal.style.dim('(no rows)')
  const cells = rows.map((row) => row.map(cell))
  const right = head.map((_, index) => rows.every((row) => isNumeric(row[index])))
  const widths = head.map((name, index) =>
    cells.reduce((most, row) => Math.max(most, width(row[index] ?? '')), width(name)),
  )
  const line = (values: readonly string[]) =>
    clip(
      values
        .map((value, index) => pad(value, widths[index] ?? 0, right[index] ?? false))
        .join('  ')
        .trimEnd(),
      terminal.width,
    )
  return [terminal.style.bold(line(head)), ...cells.map(line)].join('\n')
}

/** Names and values, one a line. */
export function record(
  row: Readonly<Record<string, unknown>>,
  { style }: Pick<Terminal, 'style'>,
): string {
  const names = Object.keys(row)
  const widest = Math.max(...names.map(width))
  return names
    .map((name) => `${style.dim(name.padEnd(widest))}  ${cell(row[name])}`.trimEnd())
    .join('\n')
}

/** A value on one line: times to the second, JSON as it is. */
export function cell(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (value instanceof Date)
    return value
      .toISOString()
      .replace('T', ' ')
      .replace(/\.\d+Z$/, 'Z')
  if (Array.isArray(value) && value.every((each) => typeof each !== 'object'))
    return value.join(', ')
  const text = typeof value === 'object' ? jsonText(value) : String(value)
  return text.replace(/\p{Cc}+/gu, ' ')
}

function isNumeric(value: unknown): boolean {
  return (
    value === null || value === undefined || typeof value === 'number' || typeof value === 'bigint'
  )
}

function pad(text: string, to: number, right: boolean): string {
  const gap = ' '.repeat(Math.max(0, to - width(text)))
  return right ? gap + text : text + gap
}

/** How many columns a text takes. */
export function width(text: string): number {
  return [...text].length
}

/** A text of at most so many columns. */
export function clip(text: string, columns: number | undefined): string {
  if (columns === undefined || width(text) <= columns) return text
  return `${[...text].slice(0, Math.max(1, columns - 1)).join('')}…`
}
