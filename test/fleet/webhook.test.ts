import { X509Certificate } from "node:crypto";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { VALIDATING_WEBHOOK_CONFIGURATIONS } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { CONFIG_MAPS, NAMESPACES, SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { HUB_STATES, MOVE_JOURNAL } from "@fairlead/fleet/api/fairlead.dev/hub-move.ts";
import { WEBHOOK_CONFIGURATION, WEBHOOK_SECRET } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { INTERNAL_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import {
  CLUSTER_RESOURCE_OVERRIDES,
  PLACEMENT_DISRUPTION_BUDGETS,
  PLACEMENT_EVICTIONS,
  RESOURCE_OVERRIDES,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import { CLUSTER_RESOURCE_PLACEMENTS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { accessManifests } from "@fairlead/fleet/authz/manifests.ts";
import { HUB_PLACEMENT_ACCESS, HUB_WEBHOOK_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { issue, readSecret, secretData } from "@fairlead/fleet/hub/webhook/certificates.ts";
import { keepWebhook, runWebhook } from "@fairlead/fleet/hub/webhook/webhook.ts";
import { IS_REAL } from "../../packages/apiserver/test/real-server.ts";
import { type GuardedHub, HUB_USER, startGuardedHub } from "./guard-server.ts";

let hub: GuardedHub;
let own: KubeClient;
let server: AsyncDisposable & { readonly port: number };
const stop = new AbortController();
let keeping = new AbortController();
const deps = systemDeps(silentLogger);
const configuration = objectKey(undefined, WEBHOOK_CONFIGURATION);
const secretKey = objectKey("fleet-system", WEBHOOK_SECRET);

const keep = (): void => {
  keeping = new AbortController();
  const address = { url: `https://127.0.0.1:${server.port}` };
  void keepWebhook(own, { address }, deps, keeping.signal);
};

beforeAll(async () => {
  hub = await startGuardedHub(IS_REAL ? "real" : "embedded");
  const subject = { kind: "User", apiGroup: "rbac.authorization.k8s.io", name: HUB_USER } as const;
  for (const access of [HUB_PLACEMENT_ACCESS, HUB_WEBHOOK_ACCESS])
    for (const { of, object } of accessManifests(access, subject))
      await hub.admin.apply(of, object, { fieldManager: "test" });
  // With the rights that the chart grants, and no others.
  own = await hub.as(HUB_USER);
  server = await runWebhook(own, { listen: "127.0.0.1:0" }, deps, stop.signal);
  keep();
  await create(CLUSTER_RESOURCE_OVERRIDES, "first", override());
  await vi.waitFor(
    async () =>
      expect(await refusal(create(CLUSTER_RESOURCE_OVERRIDES, "x", override(), true))).toContain("first"),
    { timeout: 20_000 },
  );
});
afterAll(async () => {
  stop.abort();
  keeping.abort();
  await server[Symbol.asyncDispose]();
  await hub[Symbol.asyncDispose]();
});

type Json = Record<string, unknown>;
const namespaceOf = (name: string) => ({ group: "", version: "v1", kind: "Namespace", name });
const policy = { overrideRules: [{ overrideType: "Delete" }] };
const override = (name = "work"): Json => ({ clusterResourceSelectors: [namespaceOf(name)], policy });
const placement = (...resourceSelectors: Json[]): Json => ({ resourceSelectors });

async function create(of: Resource, name: string, spec: Json, dryRun = false): Promise<KubeObject> {
  const metadata = { name, ...(of.namespaced ? { namespace: "default" } : {}) };
  return hub.admin.create(of, { metadata, spec } as KubeObject, { dryRun });
}
async function refusal(what: Promise<unknown>): Promise<string | undefined> {
  return what.then(
    () => undefined,
    (error: unknown) => (error as Error).message,
  );
}
const tries = (of: Resource, name: string, spec: Json): Promise<string | undefined> =>
  refusal(create(of, name, spec, true));

describe("the webhook of the hub", () => {
  it("admits one override for each object", async () => {
    expect(await tries(CLUSTER_RESOURCE_OVERRIDES as Resource, "second", override())).toMatch(
      /spec\.clusterResourceSelectors: Namespace work \(v1\) is selected by override first/,
    );
    expect(await tries(CLUSTER_RESOURCE_OVERRIDES as Resource, "second", override("other"))).toBeUndefined();
    const resourceSelectors = [{ group: "apps", version: "v1", kind: "Deployment", name: "d" }];
    await create(RESOURCE_OVERRIDES, "first", { resourceSelectors, policy });
    expect(await tries(RESOURCE_OVERRIDES as Resource, "second", { resourceSelectors, policy })).toContain(
      "spec.resourceSelectors",
    );
  });

  it("admits what another hub has admitted, while its hub gets that one's fleet", async () => {
    const journal = { metadata: { namespace: "fleet-system", name: MOVE_JOURNAL } };
    for (const state of HUB_STATES) {
      await hub.admin.apply(CONFIG_MAPS, { ...journal, data: { state } }, { fieldManager: "test" });
      const refused = await tries(CLUSTER_RESOURCE_OVERRIDES, "second", override());
      expect([state, refused === undefined]).toEqual([state, state === "Receiving"]);
    }
    await hub.admin.delete(CONFIG_MAPS, keyOf(journal));
  });

  it("admits an override that itself selects the object, and the same by an older version of the API", async () => {
    const key = objectKey(undefined, "first");
    const change = {
      spec: {
        policy: {
          overrideRules: [{ overrideType: "Delete", clusterSelector: { clusterSelectorTerms: [] } }],
        },
      },
    };
    expect(
      await refusal(hub.admin.mergePatch(CLUSTER_RESOURCE_OVERRIDES, key, change, { dryRun: true })),
    ).toBeUndefined();
    const old = {
      apiVersion: "placement.kubernetes-fleet.io/v1alpha1",
      kind: "ClusterResourceOverride",
      metadata: { name: "old" },
      spec: override(),
    };
    const path = "/apis/placement.kubernetes-fleet.io/v1alpha1/clusterresourceoverrides?dryRun=All";
    expect(await refusal(hub.admin.request("POST", path, old))).toContain("override first");
  });

  it("admits placements of kinds that the hub serves, and of namespaced ones only inside a namespace", async () => {
    const of = CLUSTER_RESOURCE_PLACEMENTS as Resource;
    expect(await tries(of, "p", placement(namespaceOf("work")))).toBeUndefined();
    expect(
      await tries(
        of,
        "p",
        placement(namespaceOf("work"), { group: "example.com", version: "v1", kind: "Thing" }),
      ),
    ).toContain("spec.resourceSelectors[1]: the hub serves no Thing of example.com/v1");
    const deployment = { group: "apps", version: "v1", kind: "Deployment", name: "d" };
    expect(await tries(of, "p", placement(deployment))).toContain(
      "spec.resourceSelectors[0]: Deployment of apps/v1 is namespaced",
    );
    const parts = { ...namespaceOf("work"), selectionScope: "NamespaceWithResourceSelectors" };
    expect(await tries(of, "p", placement(parts, deployment))).toBeUndefined();
  });

  it("admits evictions and budgets that the placement can have", async () => {
    const of = CLUSTER_RESOURCE_PLACEMENTS as Resource;
    await create(of, "fixed", {
      ...placement(namespaceOf("work")),
      policy: { placementType: "PickFixed", clusterNames: ["a"] },
    });
    await create(of, "all", placement(namespaceOf("work")));
    const evict = (placementName: string) =>
      tries(PLACEMENT_EVICTIONS, "e", { placementName, clusterName: "a" });
    expect(await evict("fixed")).toContain("spec.placementName: ClusterResourcePlacement fixed is PickFixed");
    expect(await evict("all")).toBeUndefined();
    expect(await evict("absent")).toBeUndefined();
    const budget = (name: string, spec: Json) => tries(PLACEMENT_DISRUPTION_BUDGETS, name, spec);
    expect(await budget("all", { maxUnavailable: 1 })).toContain("spec.maxUnavailable");
    expect(await budget("all", { minAvailable: "50%" })).toContain("spec.minAvailable");
    expect(await budget("all", { minAvailable: 1 })).toBeUndefined();
    expect(await budget("absent", { maxUnavailable: 1 })).toBeUndefined();
  });

  it("keeps a member that exports services from being deleted, unless its validationMode is Skip", async () => {
    const serviceReference = {
      clusterId: "a",
      kind: "Service",
      namespace: "work",
      name: "s",
      namespacedName: "work/s",
      resourceVersion: "1",
      generation: 1,
      uid: "u",
    };
    await hub.admin.create(INTERNAL_SERVICE_EXPORTS, {
      metadata: { namespace: "fleet-member-a", name: "work-s" },
      spec: { ports: [{ port: 80 }], serviceReference },
    });
    const remove = (name: string) =>
      refusal(
        hub.admin.request(
          "DELETE",
          `/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters/${name}?dryRun=All`,
        ),
      );
    expect(await remove("a")).toContain(
      "spec.deleteOptions.validationMode is Strict, and a still exports 1 services, such as work-s",
    );
    expect(await remove("b")).toBeUndefined();
    const skip = { spec: { deleteOptions: { validationMode: "Skip" } } };
    await hub.admin.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "a"), skip);
    expect(await remove("a")).toBeUndefined();
  });

  it("has a new certificate before the old one ends, which the API server trusts at any moment", async () => {
    keeping.abort();
    const before = readSecret(await hub.admin.get(SECRETS, secretKey))!;
    const soon = { ...deps.clock, now: () => Date.now() - 80 * 86_400_000 };
    const old = await issue(["127.0.0.1"], soon);
    const data = secretData({
      authorities: [old.authority, ...before.authorities],
      current: old.pair,
      next: undefined,
    });
    await hub.admin.mergePatch(SECRETS, secretKey, { data });
    keep();
    const served = await vi.waitFor(
      async () => {
        const cert = await certificateOf(server.port);
        expect(cert.validToDate.getTime()).toBeGreaterThan(Date.now() + 80 * 86_400_000);
        expect(cert.fingerprint256).not.toBe(new X509Certificate(before.current.cert).fingerprint256);
        return cert;
      },
      { timeout: 20_000 },
    );
    const { webhooks = [] } = await hub.admin.get(VALIDATING_WEBHOOK_CONFIGURATIONS, configuration);
    const trusted = Buffer.from(webhooks[0]?.clientConfig.caBundle ?? "", "base64").toString();
    const authorities = trusted.split(/(?=-----BEGIN)/).map((it) => new X509Certificate(it));
    expect(authorities).toHaveLength(2);
    expect(authorities.some((it) => served.checkIssued(it))).toBe(true);
    expect(await tries(CLUSTER_RESOURCE_OVERRIDES as Resource, "second", override())).toContain(
      "override first",
    );
  });

  it("refuses what it decides about while it is down, and nothing else: the hub can start again", async () => {
    await server[Symbol.asyncDispose]();
    try {
      expect(
        await tries(CLUSTER_RESOURCE_PLACEMENTS as Resource, "p", placement(namespaceOf("work"))),
      ).toMatch(/failed calling webhook|connect/);
      const byHub = own.mergePatch(CLUSTER_RESOURCE_PLACEMENTS, objectKey(undefined, "all"), {
        metadata: { finalizers: ["kubernetes-fleet.io/crp-cleanup"] },
      });
      expect(await refusal(byHub)).toBeUndefined();
      const label = hub.admin.mergePatch(CLUSTER_RESOURCE_PLACEMENTS, objectKey(undefined, "all"), {
        metadata: { labels: { a: "b" } },
      });
      expect(await refusal(label)).toBeUndefined();
      expect(
        await refusal(
          hub.admin.create(LEASES, {
            metadata: { namespace: "fleet-system", name: "fairlead-hub" },
            spec: {},
          }),
        ),
      ).toBeUndefined();
      expect(await refusal(hub.admin.create(NAMESPACES, { metadata: { name: "new" } }))).toBeUndefined();
      const remove = hub.admin.request(
        "DELETE",
        "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters/a?dryRun=All",
      );
      expect(await refusal(remove)).toBeUndefined();
    } finally {
      server = await runWebhook(own, { listen: `127.0.0.1:${server.port}` }, deps, stop.signal);
    }
  });

  it("is not configured where KubeFleet's webhooks decide about the same", async () => {
    keeping.abort();
    await hub.admin.delete(VALIDATING_WEBHOOK_CONFIGURATIONS, configuration);
    await hub.admin.create(VALIDATING_WEBHOOK_CONFIGURATIONS, {
      metadata: { name: "fleet-validating-webhook-configuration" },
    });
    const said: string[] = [];
    const log = { ...silentLogger, info: (message: string) => void said.push(message) };
    const running = new AbortController();
    const kept = keepWebhook(
      own,
      { address: { url: `https://127.0.0.1:${server.port}` } },
      { ...deps, log },
      running.signal,
    );
    await vi.waitFor(() => expect(said.join()).toContain("KubeFleet's webhooks guard this hub"));
    running.abort();
    await kept;
    expect(await hub.admin.find(VALIDATING_WEBHOOK_CONFIGURATIONS, configuration)).toBeUndefined();
  });
});

function certificateOf(port: number): Promise<X509Certificate> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({ host: "127.0.0.1", port, rejectUnauthorized: false }, () => {
      const { raw } = socket.getPeerCertificate();
      socket.destroy();
      resolve(new X509Certificate(raw));
    });
    socket.on("error", reject);
  });
}
