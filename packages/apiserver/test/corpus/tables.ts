import { isObject } from "@fairlead/base/json.ts";
import { del, get, given, patch, post, type Step } from "./scenario.ts";

const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";

/** A list as `kubectl get -o wide` shows it: the cells and conditions of its rows, without the columns. */
export function cells(path: string): Step {
  return get(path, { accept: TABLE, view: rowsOf });
}

function rowsOf(body: unknown): unknown {
  const rows = isObject(body) && Array.isArray(body["rows"]) ? body["rows"] : undefined;
  return (
    rows?.map((it: unknown) => (isObject(it) ? { cells: it["cells"], conditions: it["conditions"] } : it)) ??
    body
  );
}

/** Labels of a scenario's own objects, where others have some of the kind too. */
export const OURS = { "example.com/of": "$id" };

export interface State {
  readonly metadata?: object;
  readonly body?: object;
  readonly status?: object;
  readonly deleted?: boolean;
}

/** An object of each state. `prefix` keeps names of cluster-scoped objects apart from those of others. */
export function objectsOf(
  path: string,
  states: Readonly<Record<string, State>>,
  prefix = "",
): readonly Step[] {
  return Object.entries(states).flatMap(([key, { metadata, body, status, deleted = false }]) => {
    const name = `${prefix}${key}`;
    const held = deleted ? { finalizers: ["example.com/held"] } : {};
    return given(
      post(path, { metadata: { name, labels: OURS, ...held, ...metadata }, ...body }),
      ...(status === undefined ? [] : [patch("merge", `${path}/${name}/status`, { status })]),
      ...(deleted ? [del(`${path}/${name}`)] : []),
    );
  });
}

export const conditions = (...all: readonly string[]): object => ({
  conditions: all.map((it) => {
    const [type = "", status = "True"] = it.split("=");
    return { type, status };
  }),
});
