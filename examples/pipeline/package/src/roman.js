const SIGNS = Object.entries({
  M: 1000,
  CM: 900,
  D: 500,
  CD: 400,
  C: 100,
  XC: 90,
  L: 50,
  XL: 40,
  X: 10,
  IX: 9,
  V: 5,
  IV: 4,
  I: 1,
})

/** A whole number from 1 to 3999 as the Romans wrote it. */
export function toRoman(number) {
  if (!Number.isInteger(number) || number < 1 || number > 3999) {
    throw new RangeError(`the Romans could not write ${number}`)
  }
  let rest = number
  let text = ''
  for (const [sign, value] of SIGNS) {
    text += sign.repeat(Math.floor(rest / value))
    rest %= value
  }
  return text
}

/** The number that a text of Roman signs means. */
export function fromRoman(text) {
  let rest = text
  let number = 0
  for (const [sign, value] of SIGNS) {
    while (rest.startsWith(sign)) {
      number += value
      rest = rest.slice(sign.length)
    }
  }
  if (number === 0 || rest !== '' || toRoman(number) !== text) {
    throw new RangeError(`${text} is no Roman number`)
  }
  return number
}
