import { expect, it } from "vitest";
import { flowEnd, FLOW_REASONS, type FlowRecord, formatFlow } from "#domain/flow-record.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { MESH_NETWORKS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { type CoreEvent, EVENTS, NAMESPACES, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { type FlowFilter, type FlowLine, flowLines, followFlows, logsAllowed, renderFlow } from "./log.ts";

const DENIED: FlowRecord = {
  verdict: "denied",
  direction: "egress",
  protocol: "UDP",
  from: flowEnd("10.0.0.1", "a/shop/web"),
  to: flowEnd("10.0.0.2", undefined),
  port: 53,
  policies: ["NetworkPolicy shop/deny"],
};
const ALLOWED: FlowRecord = {
  verdict: "allowed",
  direction: "ingress",
  protocol: "TCP",
  from: flowEnd("10.1.0.1", "b/shop/web"),
  to: flowEnd("10.0.0.3", "a/data/db"),
  port: 5432,
  policies: ["NetworkPolicy data/db"],
  rule: "spec.ingress[0]",
};
const ALL: FlowFilter = { verdicts: ["denied", "allowed"] };
const signal = AbortSignal.timeout(5000);
const deps = systemDeps(silentLogger);

function event(flow: FlowRecord, second: number, count = 1): CoreEvent {
  return {
    metadata: { namespace: "shop", name: `event-${second}` },
    involvedObject: { kind: "Pod", namespace: "shop", name: "web" },
    reason: FLOW_REASONS[flow.verdict],
    message: formatFlow(flow),
    lastTimestamp: timeOf(second),
    count,
  };
}

const timeOf = (second: number): string => `2026-01-01T00:00:0${second}Z`;
const lineOf = (flow: FlowRecord, second: number, count = 1): FlowLine => ({
  time: timeOf(second),
  count,
  ...flow,
});

function cluster(...events: readonly CoreEvent[]): FakeKubeClient {
  const client = new FakeKubeClient();
  const other = { ...event(DENIED, 9), reason: "BackOff", message: "Back-off restarting" };
  client.seed(EVENTS, ...events, other);
  return client;
}

it("the log has the connections of several clusters, in the order of their times", async () => {
  const clients = [cluster(event(DENIED, 2, 3)), cluster(event(ALLOWED, 3), event(DENIED, 1))];
  expect(await flowLines({ clients, filter: ALL, deps }, signal)).toEqual([
    lineOf(DENIED, 1),
    lineOf(DENIED, 2, 3),
    lineOf(ALLOWED, 3),
  ]);
});

it.each<[string, FlowFilter, readonly FlowRecord[]]>([
  ["verdict", { verdicts: ["denied"] }, [DENIED]],
  ["namespace of either end", { ...ALL, namespace: "shop" }, [DENIED, ALLOWED]],
  ["namespace", { ...ALL, namespace: "data" }, [ALLOWED]],
  ["name of a pod", { ...ALL, pod: "web" }, [DENIED, ALLOWED]],
  ["pod of a namespace", { ...ALL, pod: "data/db" }, [ALLOWED]],
  ["pod of a cluster", { ...ALL, pod: "a/shop/web" }, [DENIED]],
  ["cluster that has no such pod", { ...ALL, pod: "c/shop/web" }, []],
])("the log is filtered by %s", async (_, filter, expected) => {
  const lines = await flowLines(
    { clients: [cluster(event(DENIED, 1), event(ALLOWED, 2))], filter, deps },
    signal,
  );
  expect(lines).toEqual(expected.map((it) => lineOf(it, it === DENIED ? 1 : 2)));
});

it("the log that is followed begins with what is there, and has what comes and what comes again", async () => {
  const client = cluster(event(ALLOWED, 3), event(DENIED, 1));
  const lines: FlowLine[] = [];
  const stop = new AbortController();
  const waits = [3, 4].map((count) => ({ count, ...Promise.withResolvers<void>() }));
  const onLine = (line: FlowLine): void => {
    lines.push(line);
    for (const it of waits) if (lines.length >= it.count) it.resolve();
    if (lines.length === 2) void client.create(EVENTS, event(DENIED, 4));
  };
  const following = followFlows({ clients: [client], filter: ALL, deps, onLine }, stop.signal);
  await waits[0]?.promise;
  await client.mergePatch(EVENTS, objectKey("shop", "event-4"), { count: 2 });
  await waits[1]?.promise;
  stop.abort();
  await expect(following).rejects.toMatchObject({ code: "ABORTED" });
  expect(lines).toEqual([lineOf(DENIED, 1), lineOf(ALLOWED, 3), lineOf(DENIED, 4), lineOf(DENIED, 4, 2)]);
});

it("an end that its node does not know is named by the cluster that has the pod, unless that is younger", async () => {
  const clock = new FakeClock(Date.parse(timeOf(0)));
  const far = new FakeKubeClient(clock);
  far.seed(MESH_NETWORKS, {
    metadata: { namespace: "fleet-system", name: "p", labels: { "fairlead.dev/own-cluster": "b" } },
    spec: { mode: "flat" },
  });
  const dns = (name: string, ip: string) => ({
    metadata: { namespace: "kube-system", name },
    spec: { containers: [] },
    status: { phase: "Running" as const, podIPs: [{ ip }] },
  });
  far.seed(PODS, dns("old", "10.0.0.2"));
  await clock.advance(8000);
  far.seed(PODS, dns("young", "10.0.0.9"));
  const toYoung = { ...DENIED, to: flowEnd("10.0.0.9", undefined) };
  const clients = [cluster(event(DENIED, 1), event(toYoung, 2)), far];
  expect(await flowLines({ clients, filter: ALL, deps }, signal)).toEqual([
    lineOf({ ...DENIED, to: flowEnd("10.0.0.2", "b/kube-system/old") }, 1),
    lineOf(toYoung, 2),
  ]);
  const filter = { ...ALL, pod: "b/kube-system/old" };
  expect(await flowLines({ clients, filter, deps }, signal)).toHaveLength(1);
});

it("a line of the log names both ends, and the rule or the policies that decided", () => {
  expect(renderFlow(lineOf(DENIED, 1, 3), "text")).toBe(
    "2026-01-01T00:00:01Z denied at egress: a/shop/web (10.0.0.1) -> 10.0.0.2 UDP 53: NetworkPolicy shop/deny (3 times)",
  );
  expect(renderFlow(lineOf(ALLOWED, 2), "text")).toBe(
    "2026-01-01T00:00:02Z allowed at ingress: b/shop/web (10.1.0.1) -> a/data/db (10.0.0.3) TCP 5432: NetworkPolicy data/db spec.ingress[0]",
  );
  expect(JSON.parse(renderFlow(lineOf(ALLOWED, 2), "json"))).toEqual(lineOf(ALLOWED, 2));
});

it("allowed connections are logged where a namespace asks for it", async () => {
  const client = new FakeKubeClient();
  client.seed(NAMESPACES, { metadata: { name: "shop" } });
  expect(await logsAllowed(client, signal)).toBe(false);
  client.seed(NAMESPACES, { metadata: { name: "data", annotations: { "fairlead.dev/flow-log": "all" } } });
  expect(await logsAllowed(client, signal)).toBe(true);
});
