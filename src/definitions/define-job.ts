import { FencepostError } from '../errors.ts'
import { type Check, callable, checkOptions, shown } from '../options.ts'
import type { JobContext } from '../worker/context.ts'
import { describeIssues, isSchema, type Schema, type Validation } from './schema.ts'
import { checkRetry, settingChecks, type TypeSettings, typeName } from './settings.ts'

/** What a handler does with a payload: it returns the result, or throws and is tried again. */
export type Handler<Payload, Result> = (
  payload: Payload,
  context: JobContext,
) => Result | Promise<Result>

/** What {@link defineJob} takes. */
export interface JobOptions<Type extends string, Input, Payload, Result> extends TypeSettings {
  /** The name of the work, such as `email.send`: the same for producers and workers, in every language. */
  readonly type: Type
  /** What payloads look like: a schema of zod or another library that follows Standard Schema. Default: any JSON. */
  readonly payload?: Schema<Input, Payload> | undefined
  /** The work itself. Left out where jobs are only enqueued. */
  readonly run?: Handler<Payload, Result> | undefined
}

/** A kind of work: it types both the enqueue and the handler. Made by {@link defineJob}. */
export class JobDefinition<
  Type extends string = string,
  Input = unknown,
  Payload = Input,
  Result = unknown,
> {
  readonly type: Type
  readonly settings: TypeSettings
  /** Of no payload in particular, so that definitions of any payload are definitions. */
  readonly #run: Handler<never, Result> | undefined
  readonly #schema: Schema<Input, Payload> | undefined

  constructor(options: JobOptions<Type, Input, Payload, Result>) {
    const what = typeof options?.type === 'string' ? `defineJob ${options.type}` : 'defineJob'
    checkOptions(what, options, checks)
    if (options.type === undefined) {
      throw new FencepostError('JE003', `${what}: type is missing`, {
        detail: `received ${shown(options)}`,
        hint: "Give it a name such as 'email.send'.",
      })
    }
    checkRetry(what, options.retry)
    const { type, payload, run, ...settings } = options
    this.type = type
    this.settings = settings
    this.#run = run
    this.#schema = payload
  }

  /** True when it has a handler, so that a worker can take it. */
  get canRun(): boolean {
    return this.#run !== undefined
  }

  /** Runs the handler on a payload that was parsed. */
  run(payload: Payload, context: JobContext): Result | Promise<Result> {
    if (this.#run === undefined) throw new TypeError(`${this.type} has no handler`)
    return this.#run(payload as never, context)
  }

  /**
   * The payload as the handler gets it.
   *
   * @throws FencepostError JE006 when it does not fit the schema
   */
  parse(payload: unknown): Payload | Promise<Payload> {
    if (this.#schema === undefined) return payload as Payload
    const validation = this.#schema['~standard'].validate(payload)
    if (validation instanceof Promise)
      return validation.then((each) => this.#accepted(each, payload))
    return this.#accepted(validation, payload)
  }

  #accepted(validation: Validation<Payload>, payload: unknown): Payload {
    if (validation.issues === undefined) return validation.value
    throw new FencepostError(
      'JE006',
      `the payload for ${this.type} is invalid: ${describeIssues(validation.issues)}`,
      {
        detail: `received ${shown(payload)}`,
        hint: 'It must satisfy the schema of its definition.',
      },
    )
  }
}

const schema: Check = (value) =>
  isSchema(value) ? undefined : 'must be a schema of zod or another Standard Schema library'

const checks = { type: typeName, payload: schema, run: callable, ...settingChecks }

/**
 * Defines a kind of work, for {@link Fencepost.enqueue} and {@link Fencepost.worker} alike.
 *
 * Payloads are checked on both sides, since old deploys and other languages enqueue too: one that
 * does not fit the schema is dead-lettered at once and not tried again.
 *
 * @throws FencepostError JE003 for an option that is unknown or makes no sense
 */
export function defineJob<
  const Type extends string,
  Input = unknown,
  Payload = Input,
  Result = unknown,
>(options: JobOptions<Type, Input, Payload, Result>): JobDefinition<Type, Input, Payload, Result> {
  return new JobDefinition(options)
}
