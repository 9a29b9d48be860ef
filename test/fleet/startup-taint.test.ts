/** What the API server of a member leaves of the rights on Nodes, with the rights that `fairlead join --startup-taint` grants. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { memberManifests } from "@fairlead/fleet/cli/fleet/install/member-manifests.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { NAMESPACES, NODES, type Taint } from "@fairlead/kube/api/core/v1/types.ts";
import { startTestServer, type TestServer } from "../../packages/apiserver/test/support.ts";

const OURS: Taint = { key: "fairlead.dev/agent-not-ready", effect: "NoSchedule" };
const OTHER: Taint = { key: "example.com/gpu", effect: "NoSchedule" };
const READY = { type: "Ready", status: "True" };
const REPORT = {
  type: "fairlead.dev/PolicyAtBoot",
  status: "True",
  reason: "Restored",
  message: "; boot b1",
};

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
  await using admin = connect(await loadKubeconfig(server.server.kubeconfig), systemDeps(silentLogger));
  const by = { fieldManager: "test" };
  await admin.apply(NAMESPACES, { metadata: { name: "fleet-system" } }, by);
  const install = {
    image: "i:1",
    imagePullPolicy: "Never",
    replicas: 1,
    dns: false,
    placementRole: null,
  } as const;
  for (const { of, object } of memberManifests({ ...install, nodes: true, startupTaint: true }))
    await admin.apply(of, object, by);
  for (const name of ["n1", "n2"]) {
    await admin.create(NODES, { metadata: { name, labels: { a: "b" } }, spec: { taints: [OTHER] } });
    const status = { conditions: [READY], nodeInfo: { bootID: "b1" }, addresses: [] };
    await admin.mergePatch(NODES, objectKey(undefined, name), { status }, { subresource: "status" });
  }
});
afterAll(() => server?.[Symbol.asyncDispose]());

/** The code of the answer to a patch by a program of the member. */
async function patch(account: string, path: string, body: object, onNode?: string): Promise<number> {
  const { code } = await server.call("PATCH", `/api/v1/nodes/${path}?dryRun=All`, {
    body,
    headers: {
      "Content-Type": "application/merge-patch+json",
      "Impersonate-User": `system:serviceaccount:fleet-system:${account}`,
      "Impersonate-Group": "system:serviceaccounts",
      ...(onNode === undefined
        ? {}
        : { "Impersonate-Extra-authentication.kubernetes.io%2fnode-name": onNode }),
    },
  });
  return code;
}

it.each<[string, object, boolean]>([
  ["its taint", { spec: { taints: [OTHER, OURS] } }, true],
  ["the taint of others", { spec: { taints: [OURS] } }, false],
  ["a taint that others may want", { spec: { taints: [OTHER, { ...OTHER, key: "example.com/x" }] } }, false],
  ["a label", { metadata: { labels: { "node-role.kubernetes.io/control-plane": "" } } }, false],
  ["an annotation", { metadata: { annotations: { a: "b" } } }, false],
  ["whether it takes pods", { spec: { unschedulable: true } }, false],
])("a member that changes %s of a Node with %j is permitted to: %s", async (_, body, isAllowed) => {
  const code = await patch("fairlead-member-sa", "n1", body);
  expect(code === 200).toBe(isAllowed);
});

const REPORTS = { status: { conditions: [READY, REPORT] } };

it.each<
  [string, { readonly node?: string; readonly token?: string | undefined; readonly body: object }, boolean]
>([
  ["reports on its own Node", { body: REPORTS }, true],
  ["does not report on another one", { node: "n2", body: REPORTS }, false],
  ["does not report with a token of no pod", { token: undefined, body: REPORTS }, false],
  ["does not say whether its node is ready", { body: { status: { conditions: [] } } }, false],
  ["does not label its node", { body: { metadata: { labels: { c: "d" } } } }, false],
  ["does not change the boot of its node", { body: { status: { nodeInfo: { bootID: "b2" } } } }, false],
])("an agent %s", async (_, of, isAllowed) => {
  const { node, token, body } = { node: "n1", token: "n1", ...of };
  const code = await patch("fairlead-node-sa", `${node}/status`, body, token);
  expect(code === 200).toBe(isAllowed);
});
