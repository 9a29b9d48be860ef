/**
 * Output for people. Text from clusters is not trusted: a member, a tenant or a server writes it, and an escape sequence in it would
 * move the cursor, hide lines or make links on the terminal of the operator who reads it (ECMA-48; Unicode UAX #9 for bidirectional controls).
 */

/** Controls, format characters such as bidirectional ones, and separators that some terminals take for line breaks. */
const STEERING = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Replaces what would steer a terminal by escapes as JSON has them. Line breaks and tabs stay, since they are the layout of the output:
 * `oneLine` takes them out of a value. In JSON text such characters are inside strings, so that the text keeps its meaning.
 */
export function escapeControls(text: string): string {
  return text.replace(STEERING, unitEscapes);
}

/** Returns true if `escapeControls` would change the text. */
export function hasControls(text: string): boolean {
  return text.search(STEERING) !== -1;
}

/** A value of outside as a part of one line of output: its line breaks and tabs become spaces, so that it cannot add lines. */
export function oneLine(value: string): string {
  return value.replace(/[\r\n\t\u2028\u2029]/g, " ");
}

/** Lines of output, each of which stays one line whatever the values in it are. */
export function joinLines(lines: readonly string[]): string {
  return lines.map(oneLine).join("\n");
}

/** Prints a result to standard output, with a line break. */
export function printText(text: string): void {
  process.stdout.write(`${escapeControls(text)}\n`);
}

/** Prints progress, a warning or an error to standard error, with a line break. */
export function printNote(text: string): void {
  process.stderr.write(`${escapeControls(text)}\n`);
}

function unitEscapes(character: string): string {
  let escapes = "";
  for (let at = 0; at < character.length; at++)
    escapes += `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`;
  return escapes;
}
