/** Services as clusters export them, in which every kind of disagreement is likely, for property tests. */

import * as fc from "fast-check";
import type { OracleExport, OraclePort } from "./oracle.ts";

type Facts = Omit<OracleExport, "cluster" | "createdAt">;

const anyPort: fc.Arbitrary<OraclePort> = fc.record({
  name: fc.constantFrom("http", "dns", "admin"),
  protocol: fc.constantFrom("TCP" as const, "TCP" as const, "UDP" as const, "SCTP" as const),
  port: fc.constantFrom(80, 81, 53),
  appProtocol: fc.constantFrom(undefined, undefined, "h2c"),
});

/** As a Service may have them: no name and no number twice, and a port without a name only by itself. */
const anyPorts: fc.Arbitrary<readonly OraclePort[]> = fc.oneof(
  { weight: 1, arbitrary: anyPort.map((it) => [{ ...it, name: "" }]) },
  {
    weight: 5,
    arbitrary: fc
      .uniqueArray(anyPort, { minLength: 1, maxLength: 3, selector: (it) => it.name })
      .map((ports) =>
        ports.filter(
          (it, at) => ports.findIndex((one) => one.protocol === it.protocol && one.port === it.port) === at,
        ),
      ),
  },
);

const anyAffinity: fc.Arbitrary<Pick<Facts, "sessionAffinity" | "affinityTimeout">> = fc.constantFrom(
  { sessionAffinity: "None", affinityTimeout: undefined },
  { sessionAffinity: "ClientIP", affinityTimeout: 10 },
  { sessionAffinity: "ClientIP", affinityTimeout: 10_800 },
);

const anyMap: fc.Arbitrary<Readonly<Record<string, string>>> = fc.constantFrom(
  {},
  { team: "a" },
  { team: "b" },
  { team: "a", tier: "x" },
);

/** What the first export is made of, and the others where they agree with it. */
export const anyFacts: fc.Arbitrary<Facts> = fc
  .record({
    service: fc.constantFrom("ClusterIP" as const, "ClusterIP" as const, "Headless" as const),
    ports: anyPorts,
    affinity: anyAffinity,
    internalTrafficPolicy: fc.constantFrom("Cluster" as const, "Local" as const),
    trafficDistribution: fc.constantFrom(undefined, "PreferClose", "PreferSameNode"),
    families: fc.constantFrom(
      ["IPv4"] as const,
      ["IPv6"] as const,
      ["IPv4", "IPv6"] as const,
      ["IPv6", "IPv4"] as const,
    ),
    exportedLabels: anyMap,
    exportedAnnotations: anyMap,
  })
  .map(({ affinity, ...facts }) => ({ ...facts, ...affinity }));

/** The properties that another export has in common with the first; the others differ. */
const anyAgreement = fc.record({
  service: fc.boolean(),
  ports: fc.boolean(),
  affinity: fc.boolean(),
  traffic: fc.boolean(),
  families: fc.boolean(),
  metadata: fc.boolean(),
});

const anyOddity = fc.constantFrom(undefined, undefined, undefined, undefined, "ExternalName", "none");

/** Exports of one service by up to four clusters, in no order; creation times are often equal. */
export const anyExports: fc.Arbitrary<readonly OracleExport[]> = fc
  .record({
    clusters: fc.shuffledSubarray(["a", "b", "c", "d"], { minLength: 1 }),
    first: anyFacts,
    others: fc.array(
      fc.record({
        facts: anyFacts,
        same: fc.oneof(fc.constant(undefined), anyAgreement, anyAgreement),
        createdAt: fc.constantFrom(0, 1, 2),
        oddity: anyOddity,
      }),
      { minLength: 4, maxLength: 4 },
    ),
  })
  .map(({ clusters, first, others }) =>
    clusters.map((cluster, at) => {
      const { facts, same, createdAt, oddity } = others[at] ?? {
        facts: first,
        same: undefined,
        createdAt: 0,
        oddity: undefined,
      };
      const merged = same === undefined ? first : mix(first, facts, same);
      const service = oddity === undefined ? merged.service : (oddity as "none");
      return { ...merged, service, cluster, createdAt };
    }),
  );

function mix(
  first: Facts,
  own: Facts,
  same: Readonly<Record<"service" | "ports" | "affinity" | "traffic" | "families" | "metadata", boolean>>,
): Facts {
  const pick = (isSame: boolean): Facts => (isSame ? first : own);
  const { sessionAffinity, affinityTimeout } = pick(same.affinity);
  const { internalTrafficPolicy, trafficDistribution } = pick(same.traffic);
  const { exportedLabels, exportedAnnotations } = pick(same.metadata);
  return {
    service: pick(same.service).service,
    ports: pick(same.ports).ports,
    families: pick(same.families).families,
    sessionAffinity,
    affinityTimeout,
    internalTrafficPolicy,
    trafficDistribution,
    exportedLabels,
    exportedAnnotations,
  };
}
