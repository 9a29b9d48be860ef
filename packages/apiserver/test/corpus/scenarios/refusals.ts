import refusals from "../refusals.json" with { type: "json" };
import { area, post, scenario, type Scenario } from "../scenario.ts";

/** One whole object of a kind, and values each of which makes it invalid. */
interface Refused {
  readonly area: string;
  readonly path: string;
  readonly object: Readonly<Record<string, unknown>>;
  /** A path such as "spec.ports[0].port", and the value to set there; null removes it. */
  readonly changes: readonly (readonly [string, unknown])[];
}

function changed({ object }: Refused, [path, value]: readonly [string, unknown]): unknown {
  const copy = structuredClone(object);
  const keys = path.split(/[.[\]]+/).filter((it) => it !== "");
  let at = copy as Record<string, unknown>;
  for (const key of keys.slice(0, -1)) at = at[key] as Record<string, unknown>;
  at[keys.at(-1) ?? ""] = value;
  return copy;
}

const all = Object.entries(refusals as unknown as Readonly<Record<string, Refused>>);

/** What each kind refuses, told field by field. */
export const scenarios: readonly Scenario[] = all.flatMap(([name, refused]) =>
  area(refused.area, [
    scenario(
      `what is wrong with: ${name}`,
      refused.changes.map((it) => post(`${refused.path}?dryRun=All`, changed(refused, it))),
    ),
  ]),
);
