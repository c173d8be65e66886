import { expect, it } from 'vitest'
import { retryAfter } from '../../src/relay/webhook/retry-after.ts'

const NOW = new Date('2030-01-31T12:00:00Z')

it.each([
  ['1', 1_000],
  ['0120', 120_000],
  ['999999999999', 86_400_000],
  ['9'.repeat(400), 86_400_000],
  ['Thu, 31 Jan 2030 12:00:30 GMT', 30_000],
  ['Fri, 31 Jan 2031 12:00:00 GMT', 86_400_000],
])('%s asks for %d ms', (text, wait) => {
  expect(retryAfter(text, NOW)).toBe(wait)
})

it.each([
  '',
  '0',
  '-5',
  '1.5',
  '+7',
  'soon',
  '2030-01-31T13:00:00Z',
  'Invalid Date',
  'Thu, 31 Jan 2030 12:00:00 GMT', // now
  'Thu, 31 Jan 2030 11:59:59 GMT',
  'Sun, 06 Nov 1994 08:49:37 GMT',
  'Mon, 31 Feb 2031 12:00:00 GMT',
  'Thu, 31 Jan 2030 12:00:30 +0000',
])('%j asks for nothing', (text) => {
  expect(retryAfter(text, NOW)).toBeUndefined()
})
