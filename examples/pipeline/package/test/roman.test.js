import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromRoman, toRoman } from '../src/roman.js'

test('numbers are written as they were', () => {
  assert.deepEqual([1, 4, 9, 14, 1994, 3999].map(toRoman), [
    'I',
    'IV',
    'IX',
    'XIV',
    'MCMXCIV',
    'MMMCMXCIX',
  ])
})

test('every number that is written is read again', () => {
  for (let number = 1; number < 4000; number++) assert.equal(fromRoman(toRoman(number)), number)
})

test('what the Romans did not write is refused', () => {
  for (const number of [0, 4000, 1.5]) assert.throws(() => toRoman(number), RangeError)
  for (const text of ['', 'IIII', 'IM', 'x']) assert.throws(() => fromRoman(text), RangeError)
})
