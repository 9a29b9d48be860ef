import { FleetError } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";

/** What `ip -json` and `bridge -json` print. @throws {FleetError} `EXEC_FAILED` when it is not JSON. */
export function objects(text: string): readonly Record<string, unknown>[] {
  // They print nothing if there are no entries.
  if (text.trim() === "") return [];
  try {
    return list(JSON.parse(text));
  } catch (cause) {
    throw new FleetError("EXEC_FAILED", "the output of ip is not JSON", { cause });
  }
}

export function list(value: unknown): readonly Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter((it) => isObject(it)) : [];
}

export function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}
