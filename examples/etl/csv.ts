/**
 * Reads CSV (RFC 4180): a head, a record a line, fields in double quotes where they hold commas, quotes
 * or line breaks. A record has the text of each field by its column.
 */
export function parseCsv(text: string): Record<string, string>[] {
  const [head = [], ...lines] = linesOf(text)
  return lines.map((fields) => Object.fromEntries(head.map((name, at) => [name, fields[at] ?? ''])))
}

/** A field, quoted or plain, and what ends it. */
const FIELD = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/y

function linesOf(text: string): string[][] {
  const lines: string[][] = []
  let line: string[] = []
  FIELD.lastIndex = 0
  while (FIELD.lastIndex < text.length) {
    const match = FIELD.exec(text)
    if (match === null) throw new Error(`line ${lines.length + 1} is not CSV`)
    const [, quoted, plain = '', end] = match
    line.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'))
    if (end === ',') continue
    lines.push(line)
    line = []
  }
  return lines
}
