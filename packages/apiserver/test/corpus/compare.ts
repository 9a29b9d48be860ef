import { isObject } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import { ACCEPTED } from "./accepted.ts";
import type { Answer } from "./play.ts";
import type { Scenario } from "./scenario.ts";

/** Values are shown up to this length. Unit: characters. */
const SHOWN = 200;

/**
 * What differs between the recorded answers and those of another server, one line each:
 *
 *     2 GET /api/v1/namespaces/$ns/configmaps/a: body.metadata.generation: absent -> 1
 *
 * Of custom resources and their lists, which a real server sorts, the order of the fields counts as well.
 */
export function differences(recorded: readonly Answer[], answers: readonly Answer[]): readonly string[] {
  const lines: string[] = [];
  for (let index = 0; index < Math.max(recorded.length, answers.length); index++) {
    const [real, ours] = [recorded[index], answers[index]];
    const request = ours?.request ?? real?.request ?? "";
    if (real?.request !== ours?.request) {
      lines.push(
        `${index + 1} ${request}: the recording has another request (${real?.request ?? "none"}); record it again`,
      );
      return lines;
    }
    collect(real, ours, "", (path, line) => lines.push(`${index + 1} ${request}: ${path}: ${line}`));
  }
  return lines;
}

function collect(
  real: unknown,
  ours: unknown,
  path: string,
  report: (path: string, line: string) => void,
): void {
  if (isObject(real) && isObject(ours)) {
    if (isCustom(real)) collectOrder(real, ours, path, report);
    for (const key of new Set([...Object.keys(real), ...Object.keys(ours)]))
      collect(real[key], ours[key], path === "" ? key : `${path}.${key}`, report);
  } else if (path.endsWith("managedFields") && Array.isArray(real) && Array.isArray(ours)) {
    // A server keeps them in the order of their times, which may fall into one second or two.
    collectItems(real.toSorted(byManager), ours.toSorted(byManager), path, report);
  } else if (Array.isArray(real) && Array.isArray(ours)) {
    collectItems(real, ours, path, report);
  } else if (real !== ours) report(path, `${show(real)} -> ${show(ours)}`);
}

function collectItems(
  real: readonly unknown[],
  ours: readonly unknown[],
  path: string,
  report: (path: string, line: string) => void,
): void {
  for (let index = 0; index < Math.max(real.length, ours.length); index++)
    collect(real[index], ours[index], `${path}[${index}]`, report);
}

/** By the group of the definitions of all scenarios. */
function isCustom({ apiVersion, metadata }: Record<string, unknown>): boolean {
  return isObject(metadata) && typeof apiVersion === "string" && apiVersion.startsWith("$id.example.com/");
}

/** Differences in the order of fields that both have. */
function collectOrder(
  real: unknown,
  ours: unknown,
  path: string,
  report: (path: string, line: string) => void,
): void {
  if (Array.isArray(real) && Array.isArray(ours)) {
    for (const [index, item] of real.entries()) collectOrder(item, ours[index], `${path}[${index}]`, report);
  }
  if (!isObject(real) || !isObject(ours)) return;
  const [names, own] = [
    Object.keys(real).filter((it) => it in ours),
    Object.keys(ours).filter((it) => it in real),
  ];
  if (names.join() !== own.join()) report(path, `order of fields: ${names.join()} -> ${own.join()}`);
  for (const key of names) collectOrder(real[key], ours[key], `${path}.${key}`, report);
}

function byManager(one: unknown, other: unknown): number {
  const key = (it: unknown): string =>
    isObject(it) ? JSON.stringify([it["manager"], it["operation"], it["subresource"]]) : "";
  return byText(key(one), key(other));
}

function show(value: unknown): string {
  if (value === undefined) return "absent";
  const text = JSON.stringify(value);
  return text.length <= SHOWN ? text : `${text.slice(0, SHOWN)}…`;
}

/** What of `lines` is not accepted, and which acceptances of the scenario no longer hold. */
export function judge(
  scenario: Pick<Scenario, "area" | "title">,
  lines: readonly string[],
): { readonly unexpected: readonly string[]; readonly outdated: readonly string[] } {
  const key = `${scenario.area}/${scenario.title}`;
  const accepted = ACCEPTED.flatMap((it) => it.differences[key] ?? []);
  const patterns = accepted.map((it) => ({ it, matches: matcher(it) }));
  return {
    unexpected: lines.filter((line) => !patterns.some(({ matches }) => matches(line))),
    outdated: patterns.filter(({ matches }) => !lines.some(matches)).map(({ it }) => it),
  };
}

/** `*` stands for anything. */
function matcher(pattern: string): (line: string) => boolean {
  const parts = pattern.split("*").map((it) => it.replaceAll(/[.+?^${}()|[\]\\]/g, String.raw`\$&`));
  const expression = new RegExp(`^${parts.join(".*")}$`, "s");
  return (line) => expression.test(line);
}
