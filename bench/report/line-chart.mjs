import { colourOf, line, niceCeiling, round, svg, text } from './svg.mjs'

const WIDTH = 720
const HEIGHT = 300
const LEFT = 60
const RIGHT = 190
const TOP = 32
const BOTTOM = 40

/** Lines over a common axis; a dashed one is a control. */
export function lineChart({ title, xLabel, lines }) {
  const points = lines.flatMap((each) => each.points)
  const endX = niceCeiling(Math.max(...points.map(([x]) => x)))
  const endY = niceCeiling(Math.max(...points.map(([, y]) => y)))
  const x = (value) => LEFT + (value / endX) * (WIDTH - LEFT - RIGHT)
  const y = (value) => HEIGHT - BOTTOM - (value / endY) * (HEIGHT - TOP - BOTTOM)
  const content = [text(0, 16, title)]
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    content.push(
      line(LEFT, y(endY * part), WIDTH - RIGHT, y(endY * part), part === 0 ? 'axis' : 'grid'),
      text(LEFT - 6, y(endY * part) + 4, label(endY * part), { anchor: 'end', small: true }),
      text(x(endX * part), HEIGHT - BOTTOM + 16, label(endX * part), {
        anchor: 'middle',
        small: true,
      }),
    )
  }
  content.push(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, xLabel, { anchor: 'middle' }))
  for (const [index, { name, label: caption, dashed, colour, points: all }] of lines.entries()) {
    const path = all
      .map(([px, py], i) => `${i ? 'L' : 'M'}${round(x(px))} ${round(y(py))}`)
      .join('')
    const dash = dashed ? ' stroke-dasharray="5 4"' : ''
    const stroke = colourOf(name, colour)
    const row = TOP + 12 + index * 20
    content.push(
      `<path d="${path}" fill="none" stroke="${stroke}" stroke-width="2"${dash}/>`,
      `<path d="M${WIDTH - RIGHT + 14} ${row - 4}h24" stroke="${stroke}" stroke-width="2"${dash}/>`,
      text(WIDTH - RIGHT + 44, row, caption, { small: true }),
    )
  }
  return svg(WIDTH, HEIGHT, title, content)
}

const label = (value) => (value >= 1000 ? `${round(value / 1000)}k` : String(round(value)))
