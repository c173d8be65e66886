import type { OpenApiDocument } from '../services.ts'
import { escapeHtml, prose, shell } from './html.ts'
import { exampleOf, fieldsOf, type JsonSchema, type Named, typeOf } from './schema.ts'

interface Operation {
  readonly tags: readonly string[]
  readonly summary: string
  readonly description?: string
  readonly operationId: string
  readonly parameters?: readonly {
    readonly name: string
    readonly in: string
    readonly required?: boolean
    readonly description?: string
    readonly schema: JsonSchema
  }[]
  readonly requestBody?: { readonly required?: boolean; readonly content: Content }
  readonly responses: Readonly<
    Record<string, { readonly description: string; readonly content?: Content }>
  >
}

type Content = Readonly<Record<string, { readonly schema: JsonSchema }>>

/** The reference of the API as one page, made from its OpenAPI document. */
export function referencePage(document: OpenApiDocument): string {
  const { info, tags = [], paths = {} } = document
  const named = (document.components?.schemas ?? {}) as Named
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods as Record<string, Operation>).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      operation,
    })),
  )
  const sections = tags.map(({ name, description = '' }) => {
    const inside = operations.filter(({ operation }) => operation.tags.includes(name))
    const routes = inside.map(({ method, path, operation }) =>
      route(method, path, operation, named),
    )
    return `<h2 id="${anchor(name)}">${escapeHtml(name)}</h2>\n<p class="dim">${prose(description)}</p>\n${routes.join('\n')}`
  })
  const links = tags.map(({ name }) => `<a href="#${anchor(name)}">${escapeHtml(name)}</a>`)
  return shell(
    `${info.title} API`,
    `<h1>${escapeHtml(info.title)} <span class="dim">${escapeHtml(info.version)}</span></h1>
<p>${prose(info.description ?? '')}</p>
<p><a href="/openapi.json">openapi.json</a></p>
<nav>${links.join('')}</nav>
${sections.join('\n')}`,
  )
}

function route(method: string, path: string, operation: Operation, named: Named): string {
  const { summary, description, operationId, parameters = [], requestBody, responses } = operation
  const parts = [
    description === undefined ? '' : `<p>${prose(description)}</p>`,
    `<pre>${escapeHtml(curl(method, path, requestBody?.content, named))}</pre>`,
    parameters.length === 0 ? '' : parameterTable(parameters),
    requestBody === undefined ? '' : bodyTable(requestBody, named),
    `<h3>Answers</h3>${table(
      Object.entries(responses).map(([status, { description: text, content }]) => [
        `<code>${escapeHtml(status)}</code>`,
        prose(text).replaceAll('\n\n', '<br>'),
        content === undefined
          ? ''
          : escapeHtml(
              Object.values(content)
                .map(({ schema }) => typeOf(schema))
                .join(),
            ),
      ]),
    )}`,
  ]
  return `<details id="${escapeHtml(operationId)}"><summary><span class="route">${method} ${escapeHtml(path)}</span>${prose(summary)}</summary>
${parts.filter(Boolean).join('\n')}
</details>`
}

function parameterTable(parameters: NonNullable<Operation['parameters']>): string {
  return `<h3>Parameters</h3>${table(
    parameters.map((each) => [
      `<code>${escapeHtml(each.name)}</code>`,
      `${escapeHtml(each.in)}${each.required ? '' : ', optional'}`,
      `${escapeHtml(typeOf(each.schema))} ${prose(each.schema.description ?? each.description ?? '')}`,
    ]),
  )}`
}

function bodyTable(
  { required, content }: NonNullable<Operation['requestBody']>,
  named: Named,
): string {
  const [{ schema } = { schema: {} }] = Object.values(content)
  const many = schema.oneOf === undefined ? '' : ', one or a list'
  return `<h3>Body${many}${required ? '' : ', optional'}</h3>${table(
    fieldsOf(schema, named).map(([name, field, needed]) => [
      `<code>${escapeHtml(name)}</code>`,
      needed ? '' : 'optional',
      `${escapeHtml(typeOf(field))} ${prose(field.description ?? '')}`,
    ]),
  )}`
}

function table(rows: readonly (readonly string[])[]): string {
  const lines = rows.map((cells) => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`)
  return `<table>${lines.join('')}</table>`
}

function curl(method: string, path: string, content: Content | undefined, named: Named): string {
  const url = `localhost:3773${path.replaceAll(/\{id\}/g, '42').replaceAll(/[{}]/g, '')}`
  if (method === 'GET') return `curl ${url}`
  const [{ schema } = { schema: undefined }] = Object.values(content ?? {})
  if (schema === undefined) return `curl -X ${method} ${url}`
  const example = JSON.stringify(exampleOf(schema.oneOf?.[0] ?? schema, named))
  const verb = method === 'POST' ? '' : ` -X ${method}`
  return `curl${verb} ${url} -H 'content-type: application/json' -d '${example}'`
}

function anchor(name: string): string {
  return name.replaceAll(' ', '-')
}
