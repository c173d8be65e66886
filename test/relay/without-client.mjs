// node --import: as if the client of Kafka were not installed.

import { register } from 'node:module'

const hooks = `
export async function resolve(name, context, next) {
  if (name !== '@platformatic/kafka') return next(name, context)
  const error = new Error("Cannot find package '@platformatic/kafka' imported from " + context.parentURL)
  throw Object.assign(error, { code: 'ERR_MODULE_NOT_FOUND' })
}`
register(`data:text/javascript,${encodeURIComponent(hooks)}`)
