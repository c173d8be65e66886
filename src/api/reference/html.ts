/** Text as it stands in HTML. */
export function escapeHtml(text: unknown): string {
  return String(text).replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`)
}

/** Text as HTML, with `code` marked as such. */
export function prose(text: string): string {
  return escapeHtml(text).replace(/`([^`]*)`/g, '<code>$1</code>')
}

/** A page that needs nothing but itself. */
export function shell(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>
</head>
<body>
${body}
</body>
</html>
`
}

const STYLE = `
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --dim: #888; --accent: #2563eb }
@media (prefers-color-scheme: dark) { :root { --accent: #7aa2ff } }
* { box-sizing: border-box }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 6rem }
h1 { margin: 0 0 .25rem } h2 { margin: 3rem 0 .25rem; border-bottom: 1px solid var(--line) }
a { color: var(--accent) } code, pre, .route { font-family: ui-monospace, monospace; font-size: .875em }
pre { background: var(--soft); padding: .75rem; overflow-x: auto; border-radius: 6px }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: 1rem 0 }
details { border: 1px solid var(--line); border-radius: 8px; margin: .5rem 0; padding: 0 .9rem }
details[open] { padding-bottom: .75rem } summary { cursor: pointer; padding: .6rem 0 }
summary .route { font-weight: 600; margin-right: .75rem } .dim { color: var(--dim) }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; font-size: .9375rem }
th, td { text-align: left; vertical-align: top; padding: .3rem .75rem .3rem 0; border-top: 1px solid var(--line) }
th { font-weight: 600; border: 0 } h3 { margin: 1rem 0 0; font-size: 1rem }
`
