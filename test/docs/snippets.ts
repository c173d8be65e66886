import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** A piece of code in a document. */
export interface Snippet {
  readonly language: string
  readonly code: string
  /** The line of the document where it begins. */
  readonly line: number
}

/** The code blocks of a document of this repository, in their order. */
export function snippetsOf(file: string): Snippet[] {
  const text = read(file)
  return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map((match) => ({
    language: match[1] ?? '',
    code: match[2] ?? '',
    line: text.slice(0, match.index).split('\n').length,
  }))
}

/** The files of this repository that a document links to. */
export function linksOf(file: string): string[] {
  return [...read(file).matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map((match) => match[1] ?? '')
}

/** The root of the repository. */
export const root = fileURLToPath(new URL('../../', import.meta.url))

function read(file: string): string {
  return readFileSync(`${root}/${file}`, 'utf8')
}
