import { definition, widgetDefinition } from "../definitions.ts";
import { area, get, given, scenario, type Step } from "../scenario.ts";

const AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_BETA = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/** Groups and versions that both servers have. The additional ones of a real server are not compared. */
const GROUPS = [
  "admissionregistration.k8s.io",
  "apiextensions.k8s.io",
  "apiregistration.k8s.io",
  "apps",
  "authentication.k8s.io",
  "authorization.k8s.io",
  "autoscaling",
  "batch",
  "certificates.k8s.io",
  "coordination.k8s.io",
  "discovery.k8s.io",
  "events.k8s.io",
  "networking.k8s.io",
  "node.k8s.io",
  "policy",
  "rbac.authorization.k8s.io",
  "scheduling.k8s.io",
  "storage.k8s.io",
] as const;
const VERSIONS = [...GROUPS.filter((it) => it !== "autoscaling").map((it) => `${it}/v1`), "autoscaling/v2"];

interface Named {
  readonly name?: string;
  readonly resource?: string;
  readonly subresource?: string;
  readonly metadata?: { readonly name?: string };
}

/** By name, so that a resource which only one server has is one difference. */
function byName(items: readonly Named[]): Record<string, unknown> {
  return Object.fromEntries(
    items.map((it) => [it.name ?? it.resource ?? it.subresource ?? it.metadata?.name ?? "", it]),
  );
}

type View = (body: unknown) => unknown;

const resourceList: View = (body) => {
  const { resources, ...rest } = body as { resources: readonly Named[] };
  return { ...rest, resources: byName(resources) };
};

const ours = (name: string | undefined): boolean => name === undefined || GROUPS.some((it) => it === name);

const groupList: View = (body) => {
  const { groups, ...rest } = body as { groups: readonly Named[] };
  return { ...rest, groups: byName(groups.filter((it) => ours(it.name))) };
};

/** Of an aggregated answer: each group's versions, and in them each resource by name. */
function aggregated(only: (name: string | undefined) => boolean): View {
  return (body) => {
    const { items, ...rest } = body as { items: readonly (Named & { versions: readonly Version[] })[] };
    const groups = items
      .filter((it) => only(it.metadata?.name))
      .map((it) => [
        it.metadata?.name ?? "core",
        it.versions.map((version) => ({
          ...version,
          resources: Object.fromEntries(
            version.resources.map((of) => [
              of.resource,
              { ...of, ...(of.subresources === undefined ? {} : { subresources: byName(of.subresources) }) },
            ]),
          ),
        })),
      ]);
    return { ...rest, items: Object.fromEntries(groups) as unknown };
  };
}

interface Version {
  readonly resources: readonly { readonly resource: string; readonly subresources?: readonly Named[] }[];
}

const discoveryOf = (group: string): Step =>
  get("/apis", { accept: AGGREGATED, view: aggregated((name) => name === group) });

export const scenarios = area("discovery", [
  scenario("the versions and the groups", [
    get("/api", { view: (body) => ({ ...(body as object), serverAddressByClientCIDRs: "<addresses>" }) }),
    get("/apis", { view: groupList }),
  ]),
  scenario("the core resources", [get("/api/v1", { view: resourceList })]),
  ...GROUPS.map((group) => scenario(`the group ${group}`, [get(`/apis/${group}`)])),
  ...VERSIONS.map((version) =>
    scenario(`the resources of ${version}`, [get(`/apis/${version}`, { view: resourceList })]),
  ),
  scenario("aggregated discovery of the core", [
    get("/api", { accept: AGGREGATED, view: aggregated(() => true) }),
  ]),
  ...GROUPS.map((group) => scenario(`aggregated discovery of ${group}`, [discoveryOf(group)])),
  scenario("forms of aggregated discovery", [
    get("/api", {
      accept: `${AGGREGATED},${AGGREGATED_BETA},application/json`,
      view: kindOf,
      keep: ["Vary"],
    }),
    get("/apis", { accept: AGGREGATED_BETA, view: kindOf }),
    get("/apis", { accept: "application/json", view: kindOf, keep: ["Vary"] }),
    get("/apis", { accept: `${AGGREGATED};profile=nopeer,application/json`, view: kindOf }),
    get("/apis", {
      accept: "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,application/json",
      view: kindOf,
    }),
    get("/apis", {
      accept: "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList",
      view: kindOf,
    }),
    get("/apis/apps", { accept: AGGREGATED }),
  ]),
  scenario("the resources of a CustomResourceDefinition", [
    definition(
      widgetDefinition(undefined, {
        version: {
          subresources: {
            status: {},
            scale: { specReplicasPath: ".spec.r", statusReplicasPath: ".status.r" },
          },
        },
        spec: {
          names: {
            plural: "widgets",
            singular: "widget",
            kind: "Widget",
            shortNames: ["w$id"],
            categories: ["all"],
          },
        },
      }),
    ),
    get("/apis/$id.example.com"),
    get("/apis/$id.example.com/v1", { view: (body) => hashless(resourceList(body)) }),
  ]),
  scenario("versions of a CustomResourceDefinition by their priority", [
    definition(
      widgetDefinition(undefined, {
        spec: {
          versions: ["v1", "v1alpha1", "v2beta1", "v10", "v2", "foo"].map((name) => ({
            name,
            served: name !== "v2",
            storage: name === "v1",
            schema: { openAPIV3Schema: { type: "object" } },
          })),
        },
      }),
    ),
    given(
      get("/apis/$id.example.com/v10/widgets", {
        until: (body) => typeof body === "object" && body !== null && "items" in body,
      }),
    ),
    get("/apis/$id.example.com"),
    get("/apis/$id.example.com/v2"),
  ]),
]);

function kindOf(body: unknown): unknown {
  const { kind, apiVersion } = body as { kind: string; apiVersion: string };
  return { kind, apiVersion };
}

/** Without what depends on the group's name. */
function hashless(body: unknown): unknown {
  return JSON.parse(
    JSON.stringify(body, (key, value: unknown) => (key === "storageVersionHash" ? "<hash>" : value)),
  );
}
