/** All rows of the tables of global Services, each a Service of its own in two clusters, and what is to answer. */

import { echoDeployment, service } from "../support/lab-manifests.ts";

const NAMESPACE = "table";
const ANNOTATION = "service.cilium.io/";

/** What the pods of a Service are like. */
const STATES = ["ready", "leaving", "none", "unready", "maintenance"] as const;
export type State = (typeof STATES)[number];
type Affinity = "none" | "local" | "remote";

interface Side {
  readonly isGlobal: boolean;
  readonly isShared: boolean;
  readonly affinity: Affinity;
  readonly state: State;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface Row {
  readonly name: string;
  /** By number of the cluster. */
  readonly sides: readonly [Side, Side];
}

/** Neither, shared alone, global alone, both by default. */
const SHARING: Readonly<
  Record<string, Pick<Side, "isGlobal" | "isShared"> & { readonly annotations: Side["annotations"] }>
> = {
  n: { isGlobal: false, isShared: false, annotations: {} },
  s: { isGlobal: false, isShared: true, annotations: { shared: "true" } },
  g: { isGlobal: true, isShared: false, annotations: { global: "true", shared: "false" } },
  gs: { isGlobal: true, isShared: true, annotations: { global: "true" } },
};
const GLOBAL = { isGlobal: true, isShared: true } as const;

function sharingRows(): readonly Row[] {
  return Object.entries(SHARING).flatMap(([a, one]) =>
    Object.entries(SHARING).map(([b, two]): Row => {
      const side = (it: typeof one): Side => ({ ...it, affinity: "none", state: "ready" });
      return { name: `${a}-${b}`, sides: [side(one), side(two)] };
    }),
  );
}

/** The affinity is that of the first cluster. */
function affinityRows(): readonly Row[] {
  return (["none", "local", "remote"] as const).flatMap((affinity) =>
    STATES.flatMap((here) =>
      STATES.map((there): Row => ({
        name: `${affinity}-${here}-${there}`,
        sides: [
          { ...GLOBAL, affinity, state: here, annotations: { global: "true", affinity } },
          { ...GLOBAL, affinity: "none", state: there, annotations: { global: "true" } },
        ],
      })),
    ),
  );
}

export const ROWS = [...sharingRows(), ...affinityRows()];

const isHealthy = ({ state }: Side): boolean => state === "ready" || state === "leaving";
const isActive = ({ state }: Side): boolean => state === "ready";

/**
 * The clusters that answer a client, by the words of Cilium's documentation: the sides that may be used, then those that the affinity
 * chooses, then ready endpoints before those that are about to go. A drained cluster is the last choice.
 *
 * @param at - The cluster of the client: 0 or 1.
 */
export function answersOf({ sides }: Row, at: 0 | 1, drained?: 0 | 1): readonly (0 | 1)[] {
  const there = at === 0 ? 1 : 0;
  const [own, other] = [sides[at], sides[there]];
  const uses = usesOf(own, other, { isOwnDrained: drained === at, isOtherDrained: drained === there });
  const used = ([0, 1] as const).filter((it) => (it === at ? uses.own : uses.other));
  const active = used.filter((it) => isActive(sides[it]));
  return active.length > 0 ? active : used.filter((it) => isHealthy(sides[it]));
}

function usesOf(
  own: Side,
  other: Side,
  { isOwnDrained, isOtherDrained }: { readonly isOwnDrained: boolean; readonly isOtherDrained: boolean },
): { readonly own: boolean; readonly other: boolean } {
  if (!own.isGlobal || !other.isGlobal || !other.isShared) return { own: true, other: false };
  const preferred = isOwnDrained ? "remote" : isOtherDrained && isActive(own) ? "local" : own.affinity;
  switch (preferred) {
    case "none":
      return { own: true, other: true };
    case "local":
      return { own: true, other: !isActive(own) && isHealthy(other) };
    default:
      return { own: !isHealthy(other) && isHealthy(own), other: true };
  }
}

/** The pods, one for each state that has any. */
export function podsOf(): readonly object[] {
  const { spec } = echoDeployment({ namespace: NAMESPACE, name: "echo" }, 1) as {
    readonly spec: { readonly template: { readonly spec: { readonly containers: readonly object[] } } };
  };
  const [container = {}] = spec.template.spec.containers;
  const pod = (state: State, fields: object, containerFields: object): object => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: NAMESPACE, name: state, labels: { state } },
    spec: { ...fields, containers: [{ ...container, ...containerFields }] },
  });
  return [
    pod("ready", {}, {}),
    // It ends long after it was deleted, and serves until then.
    pod(
      "leaving",
      { terminationGracePeriodSeconds: 900 },
      { lifecycle: { preStop: { sleep: { seconds: 800 } } } },
    ),
    pod("unready", {}, { readinessProbe: { exec: { command: ["false"] }, periodSeconds: 1 } }),
  ];
}

/** The Services of a cluster. Those in maintenance lead to ready pods, by slices whose weight is 0. */
export function servicesOf(at: 0 | 1): readonly object[] {
  return ROWS.map(({ name, sides }) => {
    const { state, annotations } = sides[at];
    const made = service(
      { namespace: NAMESPACE, name },
      { http: 80 },
      {
        selector: { state: state === "maintenance" ? "ready" : state },
      },
    ) as { readonly metadata: object };
    const keys = Object.entries(annotations).map(([key, value]): [string, string] => [
      `${ANNOTATION}${key}`,
      value,
    ]);
    return { ...made, metadata: { ...made.metadata, annotations: Object.fromEntries(keys) } };
  });
}

/** For a `nodePod`: asks each Service many times, and prints which clusters answered, as `{"name": ["member-1", "none"]}`. */
export function askScript(addresses: Readonly<Record<string, readonly string[]>>): string {
  return `exec node -e '${ASK}' '${JSON.stringify(addresses)}'`;
}

/** For each Service. Where two clusters answer, one of them is missed in one of 32,000 readings, which is repeated. */
const REQUESTS = 16;
const ASK = `
const http = require("node:http");
const one = (host) => new Promise((resolve) => {
  const request = http.get({ host, port: 80, agent: false, timeout: 1000, headers: { accept: "application/json" } }, (answer) => {
    let text = "";
    answer.on("data", (it) => (text += it)).on("end", () => resolve(JSON.parse(text).cluster)).on("error", () => resolve("none"));
  });
  request.on("timeout", () => request.destroy()).on("error", () => resolve("none"));
});
(async () => {
  const found = {};
  for (const [name, hosts] of Object.entries(JSON.parse(process.argv[1]))) {
    const answers = await Promise.all(Array.from({ length: ${REQUESTS} }, (_, at) => one(hosts[at % hosts.length])));
    found[name] = [...new Set(answers)].sort();
  }
  console.log(JSON.stringify(found));
})();
`;
