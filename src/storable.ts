/**
 * A text that PostgreSQL can store, of at most so many characters: what it cannot hold (NUL, halves of surrogate
 * pairs) is shown by other characters.
 */
export function storable(text: string, most: number): string {
  const short =
    text.length <= most ? text : `${text.slice(0, most)} … (cut from ${text.length} characters)`
  return short.replaceAll('\0', '␀').replaceAll(/\p{Surrogate}/gu, '\ufffd')
}
