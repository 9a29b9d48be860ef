/** The present clusters of a fleet in the oracle's terms: its input, and the actual result. */

import { NAMESPACES, SERVICES, type Service } from "@fairlead/kube/api/core/v1/types.ts";
import { MANAGED_BY_LABEL } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  MCS_DERIVED_SERVICE_ANNOTATION,
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  type ServiceExport,
  type ServiceImport,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { TestFleet } from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";
import { without } from "./pipeline.ts";
import { judge, type OracleExport, type OracleImport, showPort, type Verdict } from "./oracle.ts";

export const MEMBERS = ["a", "b", "c"] as const;
export const NAME = "hello";

/** All users' objects in the clusters: only the tests write them. */
export interface Given {
  /** By member: the namespaces it has. */
  readonly namespaces: ReadonlyMap<string, ReadonlySet<string>>;
  /** By namespace. */
  readonly exports: ReadonlyMap<string, readonly OracleExport[]>;
}

export async function readGiven(
  fleet: TestFleet,
  namespaces: readonly string[],
  members: readonly string[],
): Promise<Given> {
  const present = new Map<string, ReadonlySet<string>>();
  const exports = new Map<string, OracleExport[]>();
  for (const cluster of members) {
    const client = fleet.client(cluster);
    const { items } = await client.list(NAMESPACES);
    present.set(cluster, new Set(items.map((it) => it.metadata.name)));
    for (const namespace of namespaces) {
      const key = objectKey(namespace, NAME);
      const object = await client.find(MCS_SERVICE_EXPORTS, key);
      if (object === undefined) continue;
      const found = readExport(cluster, object, await client.find(SERVICES, key));
      exports.set(namespace, [...(exports.get(namespace) ?? []), found]);
    }
  }
  return { namespaces: present, exports };
}

function kindOf(service: Service | undefined): OracleExport["service"] {
  if (service === undefined) return "none";
  if (service.spec?.type === "ExternalName") return "ExternalName";
  return service.spec?.clusterIP === "None" ? "Headless" : "ClusterIP";
}

function readExport(cluster: string, object: ServiceExport, service: Service | undefined): OracleExport {
  const spec = service?.spec ?? {};
  return {
    cluster,
    createdAt: Date.parse(object.metadata.creationTimestamp ?? "") / 1000,
    service: kindOf(service),
    ports: (spec.ports ?? []).map((it) => ({
      name: "",
      protocol: "TCP" as const,
      appProtocol: undefined,
      ...it,
    })),
    ...readTraffic(spec),
    families: spec.ipFamilies ?? [],
    exportedLabels: object.spec?.exportedLabels ?? {},
    exportedAnnotations: object.spec?.exportedAnnotations ?? {},
  };
}

/** Waits until every member agrees with the oracle; fails with the differences. */
export async function untilAsJudged(
  fleet: TestFleet,
  given: Given,
  namespaces: readonly string[],
): Promise<void> {
  const verdicts = new Map(namespaces.map((it) => [it, judge(given.exports.get(it) ?? [])] as const));
  await Promise.all(
    [...given.namespaces.keys()].flatMap((cluster) => [
      untilSame(expectedImports(verdicts, given.namespaces.get(cluster) ?? new Set()), (isSame) =>
        eventually(fleet.client(cluster), MCS_SERVICE_IMPORTS, (all) => isSame(showImports(all))),
      ),
      untilSame(expectedExports(verdicts, cluster), (isSame) =>
        eventually(fleet.client(cluster), MCS_SERVICE_EXPORTS, (all) => isSame(showExports(all))),
      ),
    ]),
  );
}

type Shown = ReadonlyMap<ObjectKey, string>;

async function untilSame(
  wanted: Shown,
  wait: (isSame: (shown: Shown) => boolean) => Promise<unknown>,
): Promise<void> {
  let last: Shown = new Map();
  const differences = (): readonly string[] =>
    [...new Set([...wanted.keys(), ...last.keys()])]
      .filter((key) => wanted.get(key) !== last.get(key))
      .map((key) => `${key}\n  is     ${last.get(key) ?? "absent"}\n  not as ${wanted.get(key) ?? "absent"}`);
  try {
    await wait((shown) => {
      last = shown;
      return differences().length === 0;
    });
  } catch (cause) {
    throw new Error(differences().join("\n"), { cause });
  }
}

function expectedImports(verdicts: ReadonlyMap<string, Verdict>, present: ReadonlySet<string>): Shown {
  return new Map(
    [...verdicts].flatMap(([namespace, verdict]) =>
      verdict.import === undefined || !present.has(namespace)
        ? []
        : [[objectKey(namespace, NAME), showImport(verdict.import)] as const],
    ),
  );
}

function expectedExports(verdicts: ReadonlyMap<string, Verdict>, cluster: string): Shown {
  return new Map(
    [...verdicts].flatMap(([namespace, { valid, conflicts }]) => {
      const reason = valid.get(cluster);
      if (reason === undefined) return [];
      const reported = reason !== "Valid" ? "" : [...conflicts].toSorted().join() || "NoConflicts";
      return [[objectKey(namespace, NAME), `${reason} ${reported}`] as const];
    }),
  );
}

function showExports(all: readonly ServiceExport[]): Shown {
  return new Map(
    all.map(({ metadata, status }) => {
      const valid = findCondition(status?.conditions, "Valid")?.reason ?? "?";
      const conflict = findCondition(status?.conditions, "Conflict")?.reason ?? "";
      return [objectKey(metadata.namespace, metadata.name), `${valid} ${conflict}`] as const;
    }),
  );
}

function showImports(all: readonly ServiceImport[]): Shown {
  return new Map(
    all.map(
      (it) => [objectKey(it.metadata.namespace, it.metadata.name), showImport(readImport(it))] as const,
    ),
  );
}

function readImport({ metadata, spec, status }: ServiceImport): OracleImport {
  const ports = (spec?.ports ?? []).map((it) => ({
    name: "",
    protocol: "TCP" as const,
    appProtocol: undefined,
    ...it,
  }));
  return {
    ...readTraffic(spec),
    type: spec?.type ?? "ClusterSetIP",
    ports: new Set(ports.map((it) => showPort(it))),
    labels: without(metadata.labels, MANAGED_BY_LABEL),
    annotations: without(metadata.annotations, MCS_DERIVED_SERVICE_ANNOTATION),
    clusters: new Set(status?.clusters?.map((it) => it.cluster)),
  };
}

/** The traffic fields of a Service and of an import; a server sets the defaults. */
function readTraffic(
  spec: NonNullable<ServiceImport["spec"] | Service["spec"]> = {},
): Pick<
  OracleExport,
  "sessionAffinity" | "affinityTimeout" | "internalTrafficPolicy" | "trafficDistribution"
> {
  return {
    sessionAffinity: spec.sessionAffinity ?? "None",
    affinityTimeout: spec.sessionAffinityConfig?.clientIP?.timeoutSeconds,
    internalTrafficPolicy: spec.internalTrafficPolicy ?? "Cluster",
    trafficDistribution: spec.trafficDistribution,
  };
}

/** As one line: sets and keys in the order of their texts. */
function showImport(it: OracleImport): string {
  return (Object.keys(it) as (keyof OracleImport)[])
    .map((key) => `${key}: ${showValue(it[key])}`)
    .toSorted()
    .join("; ");
}

function showValue(value: OracleImport[keyof OracleImport]): string {
  if (typeof value !== "object") return String(value);
  const parts =
    value instanceof Set ? [...value].map(String) : Object.entries(value).map((it) => it.join("="));
  return parts.toSorted().join(" ");
}
