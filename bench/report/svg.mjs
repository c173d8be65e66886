/** What all charts share: a size, a font, and colours that stand on white and on black. */
const STYLE = `
  text { font: 13px system-ui, sans-serif; fill: #333 }
  .small { font-size: 11px; fill: #666 }
  .axis { stroke: #999; stroke-width: 1 }
  .grid { stroke: #9993; stroke-width: 1 }
  .whisker { stroke: #333; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd } .small { fill: #aaa } .whisker { stroke: #eee }
  }`

const OURS = '#2563eb'
const OTHERS = ['#94a3b8', '#b48ead', '#d08770', '#a3be8c', '#8fbcbb']

/** A colour for each system: ours stands out. */
export const colourOf = (name, index) =>
  name === 'fencepost' ? OURS : OTHERS[index % OTHERS.length]

export const svg = (width, height, label, content) =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escapeXml(label)}">
<style>${STYLE}</style>
${content.join('\n')}
</svg>
`

export const text = (x, y, content, { anchor = 'start', small = false } = {}) =>
  `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}"${small ? ' class="small"' : ''}>${escapeXml(content)}</text>`

export const line = (x1, y1, x2, y2, kind) =>
  `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" class="${kind}"/>`

export const round = (value) => Math.round(value * 10) / 10

const escapeXml = (content) =>
  String(content).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')

/** A round number at or above `value`, for the end of an axis. */
export function niceCeiling(value) {
  const magnitude = 10 ** Math.floor(Math.log10(value))
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((n) => n * magnitude).find((n) => n >= value)
}
