import { isObject } from "#base/json.ts";
import type { Tokens } from "./tokens.ts";

/** Makes answers of two servers comparable: what each may choose for itself becomes a token (see `Tokens`). */

/** Ages that a server computed for a cell of a Table. */
const AGE = /^(\d{1,3}s|\d{1,2}m(\d{1,2}s)?)$/;
/** Fields of a port number that the server allocates. */
const PORT_FIELDS = new Set(["nodePort", "healthCheckNodePort"]);

/** A body, an event of a watch, or a part of them. */
export function normalise(value: unknown, tokens: Tokens): unknown {
  learnGenerated(value, tokens);
  return walk(value, tokens);
}

function walk(value: unknown, tokens: Tokens): unknown {
  if (typeof value === "string") return tokens.text(value);
  if (Array.isArray(value)) return value.map((it) => walk(it, tokens));
  if (!isObject(value)) return value;
  const result: Record<string, unknown> = {};
  for (const [key, it] of Object.entries(value)) result[tokens.text(key)] = field(key, it, value, tokens);
  return result;
}

function field(key: string, value: unknown, of: Record<string, unknown>, tokens: Tokens): unknown {
  if (key === "metadata" && isObject(value)) return metadata(value, of, tokens);
  if (key === "resourceVersion" && typeof value === "string") return tokens.revision(value);
  if (key === "cells" && Array.isArray(value))
    return value.map((it) => (typeof it === "string" && AGE.test(it) ? "<age>" : walk(it, tokens)));
  if (PORT_FIELDS.has(key) && typeof value === "number") return tokens.port(value);
  return walk(value, tokens);
}

/** Revisions of lists and bookmarks move with every write to the server; those of objects do not. */
function metadata(value: Record<string, unknown>, of: Record<string, unknown>, tokens: Tokens): unknown {
  const result = walk(value, tokens) as Record<string, unknown>;
  const isCollection = "items" in of || "rows" in of || !("uid" in value);
  if (isCollection && typeof value["resourceVersion"] === "string" && value["resourceVersion"] !== "")
    result["resourceVersion"] = "<rv>";
  if (typeof value["continue"] === "string" && value["continue"] !== "") result["continue"] = "<continue>";
  return result;
}

/** Finds names that were made from a generateName, before anything speaks of them. */
function learnGenerated(value: unknown, tokens: Tokens): void {
  if (Array.isArray(value)) for (const it of value) learnGenerated(it, tokens);
  if (!isObject(value)) return;
  const { generateName, name } = value;
  if (typeof generateName === "string" && typeof name === "string") {
    const prefix = generateName.slice(0, 58);
    if (name.length === prefix.length + 5 && name.startsWith(prefix)) tokens.learn(name, "name");
  }
  for (const it of Object.values(value)) learnGenerated(it, tokens);
}
