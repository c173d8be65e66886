import { randomBytes } from 'node:crypto'
import { run } from './template.ts'

/** A role that may log in, and do what everybody may. */
export interface Role extends AsyncDisposable {
  readonly name: string
  /** The database, as that role. */
  readonly url: string
}

/** Makes a role, which goes with all that it owns and may. The url is a superuser's. */
export async function freshRole(url: string): Promise<Role> {
  const name = `role_${randomBytes(4).toString('hex')}`
  await run(url, `create role ${name} login password 'secret'`)
  const its = new URL(url)
  its.username = name
  its.password = 'secret'
  return {
    name,
    url: its.href,
    async [Symbol.asyncDispose]() {
      await run(url, `drop owned by ${name} cascade`)
      await run(url, `drop role ${name}`)
    },
  }
}
