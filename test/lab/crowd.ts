/** An account that keeps the hub's API server of a lab so busy that it refuses others. */

import { requestToken } from "@fairlead/kube/client/token-request.ts";
import { Agent, type RequestOptions, request } from "node:https";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "@fairlead/base/clock.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { found, type TestLab } from "../support/lab-fixture.ts";
import { restarted, restartWith } from "./odd-programs.ts";

/** How many requests that write the server takes at once. One user gets a quarter of them, and one at least. */
const PLACES = 1;
/** How long all of them are taken, and then free. Unit: milliseconds. */
const TURN_MS = 1000;

export interface Crowd extends AsyncDisposable {
  /** The number of rejected requests (429) of other users, by user. */
  refused(): Readonly<Record<string, number>>;
}

/**
 * Half of the time the one place for requests that write is taken, by a request that the server is in no hurry with: a pod waits for the
 * ServiceAccount of its namespace, which no controller creates on a hub. Administrators get through.
 */
export async function crowd(lab: TestLab, cluster: string): Promise<Crowd> {
  await using stack = new AsyncDisposableStack();
  const log = join(lab.layout.cluster(cluster), "crowd.audit.log");
  const program = `${cluster}/apiserver`;
  await restartWith(lab, program, [`--max-mutating-requests-inflight=${PLACES}`, `--audit-log-path=${log}`]);
  stack.defer(() => restarted(lab, program));
  const options = await asStranger(lab, cluster);
  const agent = stack.adopt(new Agent({ keepAlive: false }), (it) => it.destroy());
  let turn: Disposable | undefined;
  let isOver = false;
  let held: readonly Disposable[] = [];
  const come = (): void => {
    if (isOver) return;
    held = Array.from({ length: PLACES }, () => hold({ ...options, agent }));
    turn = systemClock.after(TURN_MS, go);
  };
  const go = (): void => {
    for (const it of held) it[Symbol.dispose]();
    turn = systemClock.after(TURN_MS, come);
  };
  stack.defer(() => {
    isOver = true;
    turn?.[Symbol.dispose]();
    for (const it of held) it[Symbol.dispose]();
  });
  come();
  const moved = stack.move();
  return {
    refused: () => refusedOf(readFileSync(log, "utf8")),
    [Symbol.asyncDispose]: () => moved.disposeAsync(),
  };
}

const POD = JSON.stringify({
  metadata: { generateName: "waits-" },
  spec: { containers: [{ name: "none", image: "none" }] },
});

/** A request that the server answers late, and refuses then. */
function hold(options: RequestOptions): Disposable {
  const sent = request({ ...options, method: "POST" });
  sent.on("error", () => {});
  sent.on("response", (it) => it.resume());
  sent.end(POD);
  return { [Symbol.dispose]: () => void sent.destroy() };
}

/** An account that may create pods, and nothing else. */
async function asStranger(lab: TestLab, cluster: string): Promise<RequestOptions> {
  const { server, ca } = await loadKubeconfig(lab.layout.kubeconfig, { context: cluster });
  const metadata = { namespace: "default", name: "stranger" };
  const rbac = "rbac.authorization.k8s.io";
  await lab.apply(cluster, { apiVersion: "v1", kind: "ServiceAccount", metadata });
  await lab.apply(cluster, {
    apiVersion: `${rbac}/v1`,
    kind: "Role",
    metadata,
    rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["create"] }],
  });
  await lab.apply(cluster, {
    apiVersion: `${rbac}/v1`,
    kind: "RoleBinding",
    metadata,
    roleRef: { apiGroup: rbac, kind: "Role", name: metadata.name },
    subjects: [{ kind: "ServiceAccount", ...metadata }],
  });
  const client = await lab.client(cluster);
  const token = await requestToken(client, { ...metadata, seconds: 3600 }, AbortSignal.timeout(30_000));
  const { hostname, port } = new URL(server);
  return {
    hostname,
    port,
    path: "/api/v1/namespaces/default/pods",
    ca: found(ca),
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
  };
}

function refusedOf(log: string): Record<string, number> {
  const refused: Record<string, number> = {};
  for (const line of log.split("\n").filter((it) => it.includes('"code":429'))) {
    const { user, responseStatus } = JSON.parse(line) as {
      user: { username: string };
      responseStatus?: { code: number };
    };
    if (responseStatus?.code === 429) refused[user.username] = (refused[user.username] ?? 0) + 1;
  }
  return refused;
}
