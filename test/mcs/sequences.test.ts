/**
 * Sequences of changes in clusters: whatever happens, and in whatever order it is seen, everything becomes what
 * KEP-1645 requires for the remaining objects.
 */

import * as fc from "fast-check";
import { afterAll, beforeAll, describe, it } from "vitest";
import { NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { joinCluster } from "@fairlead/fleet/cli/fleet/join.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import { ensureNamespace, PATIENCE_MS, startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";
import { anyFacts } from "./generate.ts";
import type { OracleExport } from "./oracle.ts";
import { MEMBERS, NAME, readGiven, untilAsJudged } from "./world.ts";

type Facts = Omit<OracleExport, "cluster" | "createdAt">;

interface Step {
  readonly cluster: string;
  readonly act: "serve" | "withdraw" | "export" | "unexport" | "drop namespace";
  readonly facts: Facts;
}

const anyStep: fc.Arbitrary<Step> = fc.record({
  cluster: fc.constantFrom(...MEMBERS),
  act: fc.constantFrom(
    "serve",
    "serve",
    "serve",
    "export",
    "export",
    "export",
    "withdraw",
    "unexport",
    "drop namespace",
  ),
  facts: anyFacts,
});

/** The number of the KEP: the sequences are the same in every run. */
const SEED = 1645;
const NAMESPACE_COUNT = 16;
/** Two clusters begin; then anything may happen. */
const anySequence = fc
  .tuple(anyFacts, anyFacts, fc.array(anyStep, { minLength: 12, maxLength: 12 }))
  .map(([one, two, steps]): readonly Step[] => [
    { cluster: "b", act: "serve", facts: one },
    { cluster: "b", act: "export", facts: one },
    { cluster: "a", act: "export", facts: two },
    { cluster: "a", act: "serve", facts: two },
    ...steps,
  ]);
const sequences = fc.sample(anySequence, { seed: SEED, numRuns: NAMESPACE_COUNT });
const namespaces = sequences.map((_, at) => `sequence-${at}`);

let fleet: TestFleet;

async function play(namespace: string, steps: readonly Step[]): Promise<void> {
  for (const step of steps) await take(namespace, step);
}

async function take(namespace: string, { cluster, act, facts }: Step): Promise<void> {
  const client = fleet.client(cluster);
  const key = objectKey(namespace, NAME);
  switch (act) {
    case "drop namespace":
      await client.delete(NAMESPACES, objectKey(undefined, namespace));
      await eventually(client, NAMESPACES, (all) => !all.some((it) => it.metadata.name === namespace));
      return;
    case "withdraw":
      return client.delete(SERVICES, key);
    case "unexport":
      return client.delete(MCS_SERVICE_EXPORTS, key);
    case "export":
      await ensureNamespace(client, namespace);
      // Recreated rather than changed: a server rejects a map that an applier has emptied.
      await client.delete(MCS_SERVICE_EXPORTS, key);
      await client.create(MCS_SERVICE_EXPORTS, {
        metadata: { namespace, name: NAME },
        spec: { exportedLabels: facts.exportedLabels, exportedAnnotations: facts.exportedAnnotations },
      });
      return;
    case "serve":
      return serve(namespace, cluster, facts);
    default:
      return act satisfies never;
  }
}

/** Makes the Service so; whether it is headless cannot be changed, so it may be recreated. */
async function serve(namespace: string, cluster: string, facts: Facts): Promise<void> {
  const client = fleet.client(cluster);
  const key = objectKey(namespace, NAME);
  await ensureNamespace(client, namespace);
  const isHeadless = facts.service === "Headless";
  const before = await client.find(SERVICES, key);
  if (before !== undefined && (before.spec?.clusterIP === "None") !== isHeadless)
    await client.delete(SERVICES, key);
  await client.apply(
    SERVICES,
    {
      metadata: { namespace, name: NAME },
      spec: {
        ...(isHeadless ? { clusterIP: "None" } : {}),
        ports: facts.ports.map(({ name, appProtocol, ...port }) => ({
          ...port,
          ...(name === "" ? {} : { name }),
          ...(appProtocol === undefined ? {} : { appProtocol }),
        })),
        sessionAffinity: facts.sessionAffinity,
        ...(facts.affinityTimeout === undefined
          ? {}
          : { sessionAffinityConfig: { clientIP: { timeoutSeconds: facts.affinityTimeout } } }),
        internalTrafficPolicy: facts.internalTrafficPolicy,
        ...(facts.trafficDistribution === undefined
          ? {}
          : { trafficDistribution: facts.trafficDistribution }),
      },
    },
    { fieldManager: "test" },
  );
}

async function untilAllIsWell(members: readonly string[] = MEMBERS): Promise<void> {
  await untilAsJudged(fleet, await readGiven(fleet, namespaces, members), namespaces);
}

beforeAll(async () => {
  fleet = await startFleet({ members: MEMBERS });
});
afterAll(() => fleet[Symbol.asyncDispose]());

describe("services that clusters export, change, unexport and export again", () => {
  it("converge to what KEP-1645 requires of the remaining exports, also if a namespace is missing", async () => {
    await Promise.all(namespaces.map((it, at) => play(it, sequences[at]?.slice(0, 8) ?? [])));
    await untilAllIsWell();
  }, 60_000);

  it("do so also when hub and agents are down for a part of it", async () => {
    const [first] = MEMBERS;
    await fleet.hubProgram.stop();
    await fleet.agents.get(first)?.stop();
    await Promise.all(namespaces.map((it, at) => play(it, sequences[at]?.slice(8, 12) ?? [])));
    fleet.hubProgram.start();
    await Promise.all(namespaces.map((it, at) => play(it, sequences[at]?.slice(12) ?? [])));
    fleet.agents.get(first)?.start();
    await untilAllIsWell();
  }, 60_000);

  it("lose a cluster that leaves, and get it back when it joins", async () => {
    const [first, ...others] = MEMBERS;
    const member = fleet.members.get(first)?.config;
    if (member === undefined) throw new Error("unreachable");
    const options = { name: first, hub: fleet.hub.config, member, timeoutMs: PATIENCE_MS };
    await leaveFleet(options, testDeps("leave"), AbortSignal.timeout(PATIENCE_MS));
    await eventually(fleet.client(first), MCS_SERVICE_IMPORTS, (all) => all.length === 0);
    await untilAllIsWell(others);
    const joining = { ...options, heartbeatSeconds: 1 };
    await joinCluster(joining, testDeps("join"), AbortSignal.timeout(PATIENCE_MS));
    await untilAllIsWell();
  }, 60_000);

  it("end everywhere with the last export", async () => {
    for (const cluster of MEMBERS)
      await Promise.all(
        namespaces.map((it) => fleet.client(cluster).delete(MCS_SERVICE_EXPORTS, objectKey(it, NAME))),
      );
    await untilAllIsWell();
  }, 60_000);
});
