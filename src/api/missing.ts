import { type Endpoint, nameOf } from './endpoint.ts'
import { endpoints } from './endpoints.ts'
import { ProblemError, problem } from './problem.ts'

/** What answers a request that no route takes: 405 where the path has other methods, else 404. */
export function missing(method: string, path: string): ProblemError {
  const here = path.replace(/^\/api(?=\/|$)/, '') || '/'
  const others = endpointsAt(path)
  if (others.length > 0) {
    const allow = [...new Set(others.map((each) => each.method.toUpperCase()))].join(', ')
    return new ProblemError(
      problem('JE003', `${method} is not a method of ${here}`, {
        status: 405,
        hint: `Try ${others.map(nameOf).join(' or ')}.`,
      }),
      { allow },
    )
  }
  return new ProblemError(
    problem('JE002', `there is no route ${method} ${here.slice(0, 200)}`, {
      hint: 'The routes are listed at /docs and in /openapi.json.',
    }),
  )
}

/** The routes of a path, whatever their methods. */
export function endpointsAt(path: string): Endpoint[] {
  const here = path.replace(/^\/api(?=\/|$)/, '')
  return endpoints.filter((each) => patternOf(each).test(here))
}

const patterns = new Map<Endpoint, RegExp>()

function patternOf(endpoint: Endpoint): RegExp {
  let pattern = patterns.get(endpoint)
  if (pattern === undefined) {
    const source = endpoint.path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')
    pattern = new RegExp(`^${source}$`)
    patterns.set(endpoint, pattern)
  }
  return pattern
}
