import { isObject } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import type { Tokens } from "./tokens.ts";

/** Makes answers of two servers comparable: what each may choose for itself becomes a token (see `Tokens`). */

/**
 * Ages that a server computed for a cell of a Table: seconds and minutes since the scenario wrote it, days and years since a date that the
 * scenario names. Hours are neither: they are the time between two such dates, and stay.
 */
const AGE = /^(\d{1,3}s|\d{1,2}m(\d{1,2}s)?|\d{1,3}d(\d{1,2}h)?|\d+y(\d{1,3}d)?)$/;
const MASKS: Readonly<Record<string, string>> = { continue: "<continue>", resourceVersion: "<rv>" };
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
  for (const [key, it] of Object.entries(inOrder(value)))
    result[tokens.text(key)] = field(key, it, value, tokens);
  return result;
}

interface Cause {
  readonly field?: string;
  readonly message?: string;
}

/** Of a Status: what is wrong in the order of the fields, since a server may find it in any; and not twice, in the message too. */
function inOrder(value: Record<string, unknown>): Record<string, unknown> {
  const { kind, details, message } = value;
  if (kind !== "Status") return value;
  if (!isObject(details) || !Array.isArray(details["causes"])) {
    const lines = typeof message === "string" ? message.split(/\n| (?=\.[\w.[\]"=]+: )/) : [];
    return lines.length > 1
      ? {
          ...value,
          message: lines
            .map((it) => it.trim())
            .toSorted(byText)
            .join("\n"),
        }
      : value;
  }
  const causes = details["causes"] as readonly Cause[];
  const said = (it: Cause): string =>
    it.field === undefined ? `${it.message}` : `${it.field}: ${it.message}`;
  const all = causes.map(said).join(", ");
  const sorted = causes.toSorted((a, b) => byText(said(a), said(b)));
  return {
    ...value,
    ...(typeof message === "string" ? { message: message.replace(`[${all}]`, "<causes>") } : {}),
    details: { ...details, causes: sorted },
  };
}

function field(key: string, value: unknown, of: Record<string, unknown>, tokens: Tokens): unknown {
  if (key === "metadata" && isObject(value)) return metadata(value, of, tokens);
  if (key === "resourceVersion" && typeof value === "string") return tokens.revision(value);
  if (key === "cells" && Array.isArray(value))
    return value.map((it) => (typeof it === "string" && AGE.test(it) ? "<age>" : walk(it, tokens)));
  // Prose, which is ours and shorter.
  if (key === "columnDefinitions" && Array.isArray(value)) return value.map(withoutDescription);
  if (PORT_FIELDS.has(key) && typeof value === "number") return tokens.port(value);
  return walk(value, tokens);
}

function withoutDescription(column: unknown): unknown {
  if (!isObject(column)) return column;
  const { description: _, ...rest } = column;
  return rest;
}

/** Revisions of lists and bookmarks move with every write to the server; those of objects do not. */
function metadata(value: Record<string, unknown>, of: Record<string, unknown>, tokens: Tokens): unknown {
  const isCollection = "items" in of || "rows" in of || !("uid" in value);
  const masked = Object.entries(value).map(([key, it]) => {
    const isMasked = key === "continue" || (key === "resourceVersion" && isCollection);
    return [key, isMasked && typeof it === "string" && it !== "" ? MASKS[key] : it];
  });
  return walk(Object.fromEntries(masked), tokens);
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
