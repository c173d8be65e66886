import { nearest } from './options.ts'

/** A hint for a word that is not known: what was probably meant, and all that there is. */
export function suggestion(word: string, candidates: readonly string[]): string {
  const meant = nearest(word, candidates)
  const known = `Known: ${candidates.join(', ')}.`
  return meant === undefined ? known : `Did you mean ${meant}? ${known}`
}
