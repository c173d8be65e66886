import { JobDefinition } from '../definitions/define-job.ts'
import { FencepostError } from '../errors.ts'
import { shown } from '../options.ts'

/**
 * Definitions by their type.
 *
 * @throws FencepostError JE003 when there is none, one is not what `defineJob` makes, has no handler,
 *   or two are of one type
 */
export function checkDefinitions(
  definitions: readonly JobDefinition[],
): ReadonlyMap<string, JobDefinition> {
  const byType = new Map<string, JobDefinition>()
  if (!Array.isArray(definitions) || definitions.length === 0) {
    throw new FencepostError('JE003', 'worker: give it the definitions of the jobs it runs', {
      detail: `received ${shown(definitions)}`,
      hint: 'For example engine.worker([sendEmail]).',
    })
  }
  for (const definition of definitions) {
    const problem = problemOf(definition, byType)
    if (problem !== undefined) {
      throw new FencepostError('JE003', `worker: ${problem}`, {
        detail: `received ${definitions.map((each) => each?.type ?? shown(each)).join(', ')}`,
        hint: 'Each type once, made by defineJob() with a run function.',
      })
    }
    byType.set(definition.type, definition)
  }
  return byType
}

function problemOf(
  definition: JobDefinition,
  others: ReadonlyMap<string, JobDefinition>,
): string | undefined {
  if (!(definition instanceof JobDefinition)) return `${shown(definition)} is no definition`
  if (!definition.canRun) return `${definition.type} has no handler`
  if (others.has(definition.type)) return `${definition.type} is defined twice`
  return undefined
}
