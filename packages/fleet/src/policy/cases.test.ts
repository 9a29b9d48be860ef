import { isObject } from "@fairlead/base/json.ts";
import type { JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { describe, expect, it } from "vitest";
import { POLICY_CRDS } from "#api/crds.ts";
import { compilePolicy, type PolicyKind } from "./compile/compile.ts";
import { runCase } from "./testing/cases.fake.ts";

/** Changes of one world, with questions after each, are a case each. `npm run test:full` runs 10,000. */
const CASES = Number(process.env["POLICY_CASES"] ?? 960);
const STEPS = 8;

/** Fields of NetworkPolicy, which has no CustomResourceDefinition. Selectors are left out: all kinds have them. */
const STANDARD = ["podSelector", "policyTypes"].concat(
  ["ingress", "egress"].flatMap((way) => {
    const peers = `${way}.${way === "ingress" ? "from" : "to"}`;
    const fields = [
      `${peers}.podSelector`,
      `${peers}.namespaceSelector`,
      `${peers}.ipBlock.cidr`,
      `${peers}.ipBlock.except`,
    ];
    return [...fields, ...["port", "endPort", "protocol"].map((it) => `${way}.ports.${it}`)];
  }),
);

/** Fields of our CustomResourceDefinitions that are refused where they are, by kind and path, each with a policy that has it. */
const REFUSED: ReadonlyMap<string, object> = new Map([
  ["CiliumNetworkPolicy nodeSelector", { nodeSelector: {}, ingress: [{ fromEntities: ["all"] }] }],
  ...["CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy"].flatMap((kind) =>
    ["matchName", "matchPattern"].map((it): [string, object] => {
      const toPorts = [{ ports: [{ port: "53" }], rules: { dns: [{ [it]: "example.com" }] } }];
      const spec = { endpointSelector: {}, ingress: [{ fromEntities: ["all"], toPorts }] };
      return [`${kind} ingress.toPorts.rules.dns.${it}`, spec];
    }),
  ),
]);

const SETTINGS = { cluster: "a", isLocalByDefault: true, cidrMatchesPods: false, cidrMatchesNodes: false };
const NO_OBJECTS = { cidrGroups: [], services: [] };

/** The paths of an object's fields, down to selectors, without the indexes of lists. */
function* pathsOf(value: unknown, path = ""): Generator<string> {
  if (Array.isArray(value)) for (const item of value as readonly unknown[]) yield* pathsOf(item, path);
  else if (isObject(value) && !isSelector(Object.keys(value)))
    for (const [key, field] of Object.entries(value))
      yield* pathsOf(field, path === "" ? key : `${path}.${key}`);
  else yield path;
}

function isSelector(keys: readonly string[]): boolean {
  return keys.length === 0 || keys.some((it) => it === "matchLabels" || it === "matchExpressions");
}

function* schemaPaths(schema: JsonSchema | undefined, path = ""): Generator<string> {
  const fields = Object.entries(schema?.properties ?? {});
  if (schema?.items !== undefined) yield* schemaPaths(schema.items, path);
  else if (isSelector(fields.map(([name]) => name))) yield path;
  else for (const [name, field] of fields) yield* schemaPaths(field, path === "" ? name : `${path}.${name}`);
}

describe("generated policies", () => {
  const seen = new Map<string, Set<string>>();

  function note(
    policy: KubeObject & { readonly spec?: unknown; readonly specs?: unknown },
    kind: string,
  ): void {
    const paths = seen.get(kind) ?? new Set();
    seen.set(kind, paths);
    for (const path of pathsOf({ spec: policy.spec ?? {}, specs: policy.specs ?? [] })) paths.add(path);
  }

  it(
    "are enforced as the manifests say, while pods, namespaces, nodes and policies change",
    { timeout: 900_000 },
    () => {
      const answers = { allowed: 0, denied: 0 };
      for (let seed = 0; seed < CASES / STEPS; seed++)
        expect(runCase(seed, { steps: STEPS, seen: note, answers })).toBeUndefined();
      expect(Math.min(answers.allowed, answers.denied)).toBeGreaterThan(CASES);
    },
  );

  it("have every field of every kind", () => {
    for (const { spec } of POLICY_CRDS) {
      if (spec.names.kind === "CiliumCIDRGroup") continue;
      const properties = spec.versions[0]?.schema.openAPIV3Schema?.properties ?? {};
      const wanted = new Set(schemaPaths(properties["spec"]));
      const unseen = [...wanted].filter(
        (it) => !REFUSED.has(`${spec.names.kind} ${it}`) && !hasSeen(spec.names.kind, it),
      );
      expect([spec.names.kind, unseen]).toEqual([spec.names.kind, []]);
    }
    expect(STANDARD.filter((it) => !hasSeen("NetworkPolicy", it))).toEqual([]);
  });

  it.each([...REFUSED])("do not have %s, which is refused by its name and allows nothing", (field, spec) => {
    const [kind = "", path = ""] = field.split(" ");
    const namespace = kind === "CiliumNetworkPolicy" ? { namespace: "shop" } : {};
    const policy = { metadata: { name: "p", ...namespace }, spec };
    const { policies, refusals } = compilePolicy(kind as PolicyKind, policy, SETTINGS, NO_OBJECTS);
    const [refusal] = refusals;
    expect(`spec.${path}`).toContain(refusal?.field.replaceAll(/\[\d+\]/g, ""));
    expect(policies.flatMap((it) => it.ingress?.rules ?? []).filter((it) => it.ports.length > 0)).toEqual([]);
  });

  function hasSeen(kind: string, path: string): boolean {
    return [`spec.${path}`, `specs.${path}`].some((it) =>
      seen
        .get(kind)
        ?.values()
        .some((one) => one === it || one.startsWith(`${it}.`)),
    );
  }
});
