import { z } from 'zod'

/** What a document of Markdown has: all but its words. */
export const Outline = z.object({
  file: z.string(),
  title: z.string(),
  headings: z.int(),
  words: z.int(),
  codeBlocks: z.int(),
  tableRows: z.int(),
})
export type Outline = z.infer<typeof Outline>

/** What a document is, by what it mostly consists of. */
export type Kind = 'reference' | 'guide' | 'prose'

const FENCE = /^```[^\n]*\n[\s\S]*?^```/gm

/**
 * Reads a document. Its title is its first heading, or else its name; its words are in lower case,
 * without those in code and addresses.
 */
export function extract(file: string, text: string): { outline: Outline; words: string[] } {
  const prose = text.replaceAll(FENCE, '')
  const headings = [...prose.matchAll(/^#{1,6} +(.+)$/gm)].map(([, heading = '']) => heading.trim())
  const plain = prose.replaceAll(/`[^`\n]*`/g, ' ').replaceAll(/\]\([^)]*\)/g, ' ')
  const words = plain.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
  const outline = {
    file,
    title: headings[0] ?? file,
    headings: headings.length,
    words: words.length,
    codeBlocks: text.match(FENCE)?.length ?? 0,
    tableRows: prose.match(/^\|.*\|$/gm)?.length ?? 0,
  }
  return { outline, words }
}

/** A reference is looked up: much of it is code and tables. A guide has some code, prose has none to speak of. */
export function classify({ words, codeBlocks, tableRows, headings }: Outline): Kind {
  if (codeBlocks + tableRows > words / 25 || headings > 50) return 'reference'
  return codeBlocks > 2 ? 'guide' : 'prose'
}
