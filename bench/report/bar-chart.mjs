import { short } from './figures.mjs'
import { colourOf, line, niceCeiling, round, svg, text } from './svg.mjs'

const WIDTH = 720
const LABELS = 230
const VALUES = 70
const BAR = 22
const STEP = 34

/** Horizontal bars of medians, with a whisker from the lowest round to the highest. */
export function barChart({ title, unit, note, bars }) {
  const end = niceCeiling(Math.max(...bars.map(({ figure }) => figure.max)))
  const x = (value) => LABELS + (value / end) * (WIDTH - LABELS - VALUES)
  const height = bars.length * STEP + 48
  const content = [text(0, 16, `${title}, ${unit}`), text(WIDTH, 16, note, IN_SMALL)]
  for (const [index, { name, colour, pale, label, figure }] of bars.entries()) {
    const top = 32 + index * STEP
    const middle = top + BAR / 2
    content.push(
      text(LABELS - 8, middle + 4, label, { anchor: 'end' }),
      `<rect x="${LABELS}" y="${top}" width="${round(x(figure.median) - LABELS)}" height="${BAR}" rx="3" fill="${colourOf(name, colour)}"${pale ? ' opacity="0.5"' : ''}/>`,
      line(x(figure.min), middle, x(figure.max), middle, 'whisker'),
      line(x(figure.min), middle - 4, x(figure.min), middle + 4, 'whisker'),
      line(x(figure.max), middle - 4, x(figure.max), middle + 4, 'whisker'),
      text(Math.max(x(figure.max), x(figure.median)) + 6, middle + 4, short(figure.median)),
    )
  }
  content.push(line(LABELS, 28, LABELS, height - 12, 'axis'))
  return svg(WIDTH, height, `${title}, ${unit}`, content)
}

const IN_SMALL = { anchor: 'end', small: true }
