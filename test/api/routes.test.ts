import { expect, it } from 'vitest'
import { nameOf } from '../../src/api/endpoint.ts'
import { endpoints } from '../../src/api/endpoints.ts'
import { unasked } from '../support/completeness.ts'
import { Gathered } from '../support/gathered.ts'

it('each route is asked for once well and once refused, or the suite fails', () => {
  const gathered = new Gathered()
  const [first, ...rest] = endpoints
  gathered.add(
    'route',
    rest.flatMap((each) => [`${nameOf(each)} answered`, `${nameOf(each)} refused`]),
  )
  const complaints = unasked(gathered.all('route'))
  gathered.remove()
  const name = first === undefined ? '' : nameOf(first)
  expect(complaints).toEqual([`no test saw ${name} answered`, `no test saw ${name} refused`])
})

it('no two routes have the same name', () => {
  const names = endpoints.map(nameOf)
  expect(new Set(names).size).toBe(names.length)
})
