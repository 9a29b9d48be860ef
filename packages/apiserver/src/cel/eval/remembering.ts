import type { CelValue } from "../value.ts";

type Call = (values: readonly CelValue[]) => CelValue;

/** Functions of one text whose results never change, and take long enough to read that the last one is kept. */
const READERS = new Set(["cidr", "ip", "quantity", "semver", "url"]);

/** `call` of a function, asked once for the same text again and again: a literal, or the variable of an outer loop. */
export function remembering(name: string, call: Call): Call {
  if (!READERS.has(name)) return call;
  let last: { readonly text: string; readonly result: CelValue } | undefined;
  return (values) => {
    const [text] = values;
    if (typeof text !== "string" || values.length !== 1) return call(values);
    if (last?.text !== text) last = { text, result: call(values) };
    return last.result;
  };
}
