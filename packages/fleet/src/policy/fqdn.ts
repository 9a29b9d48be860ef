import type { FqdnPattern } from "./model.ts";

/** Whether a name, without its final dot, is one that a pattern stands for. Linear in the length of both. */
export function doesFqdnMatch(name: string, pattern: FqdnPattern): boolean {
  const text = name.toLowerCase();
  if (pattern === "*") return true;
  if (!pattern.startsWith("**.")) return doesMatch(text.split("."), pattern.split("."));
  const rest = pattern.slice("**.".length).split(".");
  const labels = text.split(".");
  return labels.length > rest.length && doesMatch(labels.slice(-rest.length), rest);
}

function doesMatch(labels: readonly string[], patterns: readonly string[]): boolean {
  return labels.length === patterns.length && patterns.every((it, index) => isLabel(labels[index] ?? "", it));
}

/** Each part between stars at its first place behind the one before. */
function isLabel(label: string, pattern: string): boolean {
  const [first = "", ...others] = pattern.split("*");
  const last = others.pop();
  if (last === undefined) return label === first;
  if (!label.startsWith(first)) return false;
  let at = first.length;
  for (const part of others) {
    const found = label.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return label.length - last.length >= at && label.endsWith(last);
}
