/**
 * The language of the corpus: a scenario is a title and the requests it sends, in order.
 *
 *     export const scenarios = area("crud", [
 *       scenario("a ConfigMap that is deleted is gone", [
 *         post("/api/v1/namespaces/$ns/configmaps", { metadata: { name: "a" } }, { name: "created" }),
 *         del("/api/v1/namespaces/$ns/configmaps/a", { preconditions: { uid: "$created.metadata.uid" } }),
 *         get("/api/v1/namespaces/$ns/configmaps/a"),
 *       ]),
 *     ]);
 *
 * Anywhere in a path, a header or a body: `$ns` is the scenario's own namespace, `$id` a word no other scenario has (for names of
 * cluster-scoped objects, groups of CRDs, labels to select by), `$created.metadata.uid` a value of an earlier answer. A text that is
 * nothing but a placeholder becomes the value itself, be it a number or an object.
 */

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" | "OPTIONS" | (string & {});

export interface StepOptions {
  /** What later steps call this answer. */
  readonly name?: string;
  /** Content type of the body. Default: application/json where there is a body. */
  readonly type?: string;
  readonly accept?: string;
  /** The user to impersonate, and the groups. */
  readonly as?: string;
  readonly groups?: readonly string[];
  /** Bearer token in place of the admin's credentials; "" sends none at all. */
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Headers of the answer to compare in addition to those that are always compared. */
  readonly keep?: readonly string[];
  /** Play it, insist that it succeeds, and neither record nor compare the answer. */
  readonly unrecorded?: boolean;
  /** The part of the answer's body that is compared. Default: all of it. */
  readonly view?: (body: unknown) => unknown;
  /** A connection that the server cuts is an answer, of status 0. */
  readonly mayBeCut?: boolean;
  /** Send it in a later second than all that came before, so that times show which of them made them. */
  readonly later?: boolean;
  /** Repeat the request until the body holds this: for what a server does in its own time. */
  readonly until?: (body: unknown) => boolean;
}

export interface Step extends StepOptions {
  readonly method: Method;
  readonly path: string;
  /** Objects are sent as JSON; texts and bytes as they are. */
  readonly body?: unknown;
  readonly watch?: Watching;
}

export interface Watching {
  /** Events after which the watch is closed, unless the server ends it before. To show that nothing else came, let the last be an object written for that. */
  readonly events: number;
  /** Played once the watch is open. */
  readonly during: readonly Step[];
}

export interface Scenario {
  readonly area: string;
  readonly title: string;
  readonly steps: readonly Step[];
  /** Whether it needs a namespace of its own. */
  readonly namespaced: boolean;
  /** Whether it disturbs others or is disturbed by them, and so is played when no other is. */
  readonly alone: boolean;
}

export interface ScenarioOptions {
  /** Default: true. */
  readonly namespaced?: boolean;
  /** Default: false. */
  readonly alone?: boolean;
}

export function scenario(
  title: string,
  steps: readonly (Step | readonly Step[])[],
  { namespaced = true, alone = false }: ScenarioOptions = {},
): Omit<Scenario, "area"> {
  return { title, steps: steps.flat(), namespaced, alone };
}

export function area(name: string, scenarios: readonly Omit<Scenario, "area">[]): readonly Scenario[] {
  return scenarios.map((it) => ({ ...it, area: name }));
}

export function get(path: string, options: StepOptions = {}): Step {
  return { method: "GET", path, ...options };
}
export function post(path: string, body: unknown, options: StepOptions = {}): Step {
  return { method: "POST", path, body, ...options };
}
export function put(path: string, body: unknown, options: StepOptions = {}): Step {
  return { method: "PUT", path, body, ...options };
}
export function del(path: string, body?: unknown, options: StepOptions = {}): Step {
  return { method: "DELETE", path, ...(body === undefined ? {} : { body }), ...options };
}
/** Any other method. */
export function send(
  method: Method,
  path: string,
  options: StepOptions & { readonly body?: unknown } = {},
): Step {
  return { method, path, ...options };
}

const PATCH_TYPES = {
  json: "application/json-patch+json",
  merge: "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
  apply: "application/apply-patch+yaml",
} as const;

export function patch(
  kind: keyof typeof PATCH_TYPES,
  path: string,
  body: unknown,
  options: StepOptions = {},
): Step {
  return { method: "PATCH", path, body, type: PATCH_TYPES[kind], ...options };
}

/** Opens a watch, plays `during` once it is open, and takes `events` events (fewer where the server ends it). */
export function watch(
  path: string,
  {
    events,
    during = [],
    ...options
  }: StepOptions & { readonly events: number; readonly during?: readonly Step[] },
): Step {
  return { method: "GET", path, ...options, watch: { events, during } };
}

/** Steps that prepare: they must succeed, and are not compared. */
export function given(...steps: readonly Step[]): readonly Step[] {
  return steps.map((it) => ({ ...it, unrecorded: true }));
}
