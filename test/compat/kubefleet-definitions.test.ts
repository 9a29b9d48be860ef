import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { parse } from "yaml";
import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { installCrds, missingCrds } from "@fairlead/kube/definitions/crds.ts";
import { publishedPart } from "@fairlead/fleet/api/crd-schema.ts";
import { CLUSTER_PROFILE_CRD } from "@fairlead/fleet/api/multicluster.x-k8s.io/cluster-profiles.ts";
import {
  PLACEMENT_CRDS,
  PUBLISHED_PLACEMENT_CRDS,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/crds.ts";
import { createPlacementInformers } from "@fairlead/fleet/hub/placement/informers.ts";
import type { Informer } from "@fairlead/kube/types.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { PATIENCE_MS, startCluster, testDeps } from "../support/fleet.ts";

const folder = fileURLToPath(
  new URL("../../../shared/peers/kubefleet-dev+kubefleet/config/crd/bases/", import.meta.url),
);
/** KubeFleet's own where they are available; else what they are known to have. */
const theirs: readonly CustomResourceDefinition[] = existsSync(folder)
  ? readdirSync(folder).map((it) => parse(readFileSync(`${folder}${it}`, "utf8")) as CustomResourceDefinition)
  : [...PUBLISHED_PLACEMENT_CRDS, CLUSTER_PROFILE_CRD];

it("the hub places resources by the definitions that KubeFleet installs, and knows which additions they lack", async () => {
  await using cluster = await startCluster("hub", []);
  const { client } = cluster;
  const deps = testDeps("hub");
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const by = { fieldManager: "helm" };
  await installCrds(client, { crds: theirs, ...by }, deps, signal);
  const needed = [...PUBLISHED_PLACEMENT_CRDS, CLUSTER_PROFILE_CRD];
  expect(await missingCrds(client, { crds: needed, ...by }, deps, signal)).toEqual([]);
  const lacking = await missingCrds(client, { crds: PLACEMENT_CRDS, ...by }, deps, signal);
  const added = PLACEMENT_CRDS.filter((it) => JSON.stringify(publishedPart(it)) !== JSON.stringify(it));
  expect(lacking).toEqual(
    expect.arrayContaining([
      "resourceplacementevictions.placement.kubernetes-fleet.io",
      ...added.map((it) => it.metadata.name),
    ]),
  );
  // Those of kinds that are missing do not hold up the others.
  const { cluster: ofCluster, namespaced, ...others } = createPlacementInformers(client, deps);
  const scoped = [ofCluster, namespaced].flatMap(({ scope: _scope, ...it }) => Object.values(it));
  const informers = [...scoped, ...Object.values(others)] as readonly Informer<KubeObject>[];
  await using stack = new AsyncDisposableStack();
  for (const it of informers) stack.use(it).start(signal);
  await Promise.all(informers.map((it) => it.synced(signal)));
});
