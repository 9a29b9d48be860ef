import { escapeControls, hasControls } from "@fairlead/base/print.ts";
import { stringify } from "yaml";

/** The formats of `-o`. Each command accepts one of these lists as a whole, so that a format means the same everywhere. */

/** For commands that act and report the result. The first is for people. */
export const RESULT_OUTPUTS = ["text", "json", "yaml"] as const;
export type ResultOutput = (typeof RESULT_OUTPUTS)[number];

/** Of commands that show things. `wide` has more columns; `name` is a name a line, for scripts. */
export const LIST_OUTPUTS = ["text", "wide", "json", "yaml", "name"] as const;
export type ListOutput = (typeof LIST_OUTPUTS)[number];

/** Of commands that print Kubernetes objects. */
export const OBJECT_OUTPUTS = ["yaml", "json"] as const;
export type ObjectsOutput = (typeof OBJECT_OUTPUTS)[number];

/** Of commands that print a line for each thing as it comes: a JSON object, or a text for people. */
export const LOG_OUTPUTS = ["json", "text"] as const;
export type LogOutput = (typeof LOG_OUTPUTS)[number];

/**
 * For programs: without any text for people. Has no final line break. Characters that steer a terminal are escaped. YAML has escapes in
 * double quotes only, so that data with such characters is JSON, which is YAML as well.
 */
export function renderData(data: object, output: "json" | "yaml"): string {
  const json = JSON.stringify(data, undefined, 2);
  if (output === "json" || hasSteering(data)) return escapeControls(json);
  return stringify(data, { aliasDuplicateObjects: false }).trimEnd();
}

/** Looks at keys and values as they are: JSON has escapes for some of the characters already. */
function hasSteering(value: unknown): boolean {
  if (typeof value === "string") return hasControls(value);
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([key, it]) => hasControls(key) || hasSteering(it));
}
