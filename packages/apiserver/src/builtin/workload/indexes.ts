/**
 * How many indexes a list such as "1,3-5" names, or what is wrong with it. Indexes rise.
 * Source: k8s.io/kubernetes, pkg/apis/batch/validation.
 */
export function countIndexes(list: string, completions: number): number | string {
  let count = 0;
  let last = -1;
  for (const part of list.split(",")) {
    const [first = "", end = first] = part.split("-", 2);
    const range = [first, end].map((it) => readIndex(it, completions));
    const wrong = range.find((it) => typeof it === "string");
    if (wrong !== undefined) return wrong;
    const [from = 0, to = 0] = range.map(Number);
    if (from <= last) return `non-increasing order, previous: ${last}, current: ${from}`;
    if (to < from || (part.includes("-") && to === from)) {
      return `non-increasing order, previous: ${from}, current: ${to}`;
    }
    last = to;
    count += to - from + 1;
  }
  return count;
}

function readIndex(text: string, completions: number): number | string {
  if (!/^[+-]?\d+$/.test(text)) return `cannot convert string to integer for index: ${JSON.stringify(text)}`;
  return Number(text) >= completions ? `too large index: ${JSON.stringify(text)}` : Number(text);
}
