/**
 * JSON with 64-bit integers, as Go reads and writes it: integers that a number cannot hold exactly are bigints. Because a
 * bigint is not an object, code that copies, compares or walks values treats it as a scalar.
 */

const MIN = -(2n ** 63n);
const MAX = 2n ** 63n - 1n;

/** So many digits a number always holds. */
const LONG = /[0-9]{16}/;
const INTEGER = /^-?[0-9]+$/;

/** Whether an integer, given as text, would lose digits as a number. */
export function isRounded(digits: string): boolean {
  return digits.length > 15 && INTEGER.test(digits) && String(Number(digits)) !== digits;
}

/** Whether a text of digits is an integer of 64 bits. */
export function isInt64(digits: string): boolean {
  if (digits.length > 20) return false;
  const value = BigInt(digits);
  return value >= MIN && value <= MAX;
}

/** As `JSON.parse`, with bigints for integers of 64 bits that would be rounded; likewise of any nesting. */
export function parseExact(text: string): unknown {
  if (!LONG.test(text)) return JSON.parse(text);
  try {
    return JSON.parse(text, exactly as Parameters<typeof JSON.parse>[1]);
  } catch (error) {
    // A reviver is called by recursion, the parser is not.
    if (error instanceof RangeError) return withMarksRead(JSON.parse(text.replace(TOKEN, marked)));
    throw error;
  }
}

/** Texts and keys, and numbers. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"(?:\s*:)?|-?[0-9][-+.eE0-9]*/g;
/** Before the digits of an integer, and before a text that begins with it itself. Of the area for private use. */
const MARK = "\u{E000}";
const BEGINS_WITH_MARK = /^"(?:\uE000|\\u[eE]000)/;

function marked(token: string): string {
  if (!token.startsWith('"')) return isRounded(token) && isInt64(token) ? `"${MARK}${token}"` : token;
  return BEGINS_WITH_MARK.test(token) && token.endsWith('"') ? `"${MARK}${token.slice(1)}` : token;
}

/** In place, without recursion. */
function withMarksRead(root: unknown): unknown {
  const holder = { root };
  const open: object[] = [holder];
  for (let it = open.pop(); it !== undefined; it = open.pop())
    for (const [key, value] of Object.entries(it) as [string, unknown][]) {
      if (typeof value === "object" && value !== null) open.push(value);
      if (typeof value !== "string" || !value.startsWith(MARK)) continue;
      const rest = value.slice(MARK.length);
      (it as Record<string, unknown>)[key] = rest.startsWith(MARK) ? rest : BigInt(rest);
    }
  return holder.root;
}

function exactly(_key: string, value: unknown, { source }: { readonly source?: string }): unknown {
  if (typeof value !== "number" || source === undefined || !isRounded(source)) return value;
  return isInt64(source) ? BigInt(source) : value;
}

/** Types of the language that its library does not declare yet (ECMAScript: JSON.parse source text access). */
const RAW = JSON as unknown as { readonly rawJSON: (text: string) => object };

// `JSON.stringify` refuses bigints unless they define how they are written.
// oxlint-disable-next-line eslint/no-extend-native
Object.defineProperty(BigInt.prototype, "toJSON", {
  configurable: true,
  value(this: bigint): object {
    return RAW.rawJSON(String(this));
  },
});
