export const root: string
export function expand(text: string): string
export function installText(): string
export function unlisted(): string[]
export function enlist(name: string): void
export function currentText(): string
