import type { OutboxEvent } from '../../database/engine.ts'
import { FencepostError } from '../../errors.ts'
import { shown } from '../../options.ts'
import { suggestion } from '../../suggest.ts'

/** What Kafka allows in the name of a topic, and how much of it. */
const ALLOWED = /^[A-Za-z0-9._-]*$/
const LONGEST = 249

/** What a template may name, and what stands there when an event has none. */
const FIELDS = ['kind', 'type', 'tenant', 'workflow', 'outcome'] as const
const NONE = 'none'

type Field = (typeof FIELDS)[number]
type Part = { readonly text: string } | { readonly field: Field }

/**
 * The topic of each event, from a template such as `fencepost.{kind}` or `{tenant}.{type}`. Values are taken as they
 * are, but for characters that no topic may have, which become `_`; a value that an event lacks is `none`.
 */
export class TopicTemplate {
  readonly #parts: readonly Part[]

  /** @throws FencepostError JE003 when it is none: an unknown name, a stray brace, a character that no topic may have */
  constructor(template: string) {
    this.#parts = partsOf(template)
  }

  /**
   * The topic of an event.
   *
   * @throws InvalidTopicError when what comes out is no name of a topic
   */
  topicOf(event: OutboxEvent): string {
    const topic = this.#parts
      .map((part) => ('text' in part ? part.text : wordOf(event, part.field)))
      .join('')
    if (topic.length > LONGEST) {
      throw new InvalidTopicError(
        `the name of its topic has ${topic.length} characters, at most ${LONGEST} are allowed`,
      )
    }
    if (isReserved(topic)) throw new InvalidTopicError(`"${topic}" is no name of a topic`)
    return topic
  }
}

function isReserved(topic: string): boolean {
  return topic === '.' || topic === '..'
}

/** An event makes a name that no topic can have. */
export class InvalidTopicError extends Error {
  override readonly name = 'InvalidTopicError'
}

function wordOf(event: OutboxEvent, field: Field): string {
  return (event[field] || NONE).replaceAll(/[^A-Za-z0-9._-]/g, '_')
}

function partsOf(template: string): Part[] {
  if (template === '') throw refusal('it is empty', template)
  if (isReserved(template)) throw refusal('no topic may have that name', template)
  const parts = template.split(/(\{[^{}]*\})/).filter((part) => part !== '')
  return parts.map((part) => {
    const name = /^\{(.*)\}$/.exec(part)?.[1]
    if (name === undefined) return { text: literal(part, template) }
    const field = FIELDS.find((each) => each === name)
    if (field === undefined)
      throw refusal(`{${name}} is nothing it could name`, template, suggestion(name, FIELDS))
    return { field }
  })
}

function literal(text: string, template: string): string {
  if (/[{}]/.test(text)) throw refusal('a brace stands alone', template)
  if (!ALLOWED.test(text)) throw refusal('it has a character that no topic may have', template)
  if (text.length > LONGEST) throw refusal(`it has more than ${LONGEST} characters`, template)
  return text
}

function refusal(problem: string, template: string, hint?: string): FencepostError {
  return new FencepostError('JE003', `that is no template for topics: ${problem}`, {
    detail: `received ${shown(template)}`,
    hint: hint ?? 'Letters, digits, . _ - and names in braces, as fencepost.{kind}.',
  })
}
