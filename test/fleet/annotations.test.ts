import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { installPolicies } from "@fairlead/fleet/authz/policies/install.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { startTestServer, type TestServer } from "../../packages/apiserver/test/support.ts";
import { testDeps } from "../support/fleet.ts";

const NAMESPACES = "/api/v1/namespaces";
const MEMBERS = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";

let hub: TestServer;
const stack = new AsyncDisposableStack();
let count = 0;

/** The warnings of creating an object with these annotations. */
async function warningsOf(path: string, annotations: Record<string, string>): Promise<string> {
  count += 1;
  const identity = { kind: "User", name: "u", apiGroup: "rbac.authorization.k8s.io" };
  const spec = path === MEMBERS ? { spec: { identity } } : {};
  const kind = path === MEMBERS ? "MemberCluster" : "Namespace";
  const apiVersion = path === MEMBERS ? "cluster.kubernetes-fleet.io/v1beta1" : "v1";
  const body = { apiVersion, kind, metadata: { name: `a-${count}`, annotations }, ...spec };
  const { code, headers } = await hub.call("POST", `${path}?dryRun=All`, { body });
  expect(code).toBe(201);
  return String(headers["warning"] ?? "");
}

beforeAll(async () => {
  hub = stack.use(await startTestServer());
  const deps = testDeps("admin");
  const admin = stack.use(connect(await loadKubeconfig(hub.server.kubeconfig), deps));
  const signal = AbortSignal.timeout(60_000);
  await installCrds(admin, { crds: HUB_CRDS, fieldManager: "test" }, deps, signal);
  await installPolicies(admin, silentLogger, signal);
  // A real server takes policies up in its own time.
  const deadline = performance.now() + 30_000;
  while ((await warningsOf(NAMESPACES, { "fairlead.dev/nonsense": "" })) === "") {
    if (performance.now() > deadline) throw new Error("the policy does not warn");
    await delay(100);
  }
}, 90_000);
afterAll(() => stack.disposeAsync());

describe("an unknown annotation of Fairlead", () => {
  it("causes a warning on a namespace or a MemberCluster of the hub, with the known annotations", async () => {
    expect(await warningsOf(NAMESPACES, { "fairlead.dev/allowed-importer": "a" })).toMatch(
      /fairlead\.dev\/allowed-importer has no effect on a Namespace; known annotations: .*fairlead\.dev\/allowed-importers/,
    );
    expect(await warningsOf(MEMBERS, { "fairlead.dev/granted-cidr": "10.0.0.0/8" })).toMatch(
      /fairlead\.dev\/granted-cidr has no effect on a MemberCluster; known annotations: .*fairlead\.dev\/granted-cidrs/,
    );
  });

  it("is the only one that causes a warning: known annotations and other prefixes do not", async () => {
    expect(await warningsOf(NAMESPACES, { "fairlead.dev/allowed-importers": "a", "x.dev/y": "" })).toBe("");
    expect(await warningsOf(MEMBERS, { "fairlead.dev/granted-cidrs": "10.0.0.0/8" })).toBe("");
    // Those by which members are upgraded, too.
    for (const it of ["upgrader", "auto-upgrade-schedule", "node-os-upgrade-schedule"])
      expect(await warningsOf(MEMBERS, { [`fairlead.dev/${it}`]: "External" })).toBe("");
    expect(await warningsOf(NAMESPACES, {})).toBe("");
  });
});
