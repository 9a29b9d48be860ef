/**
 * A process that hosts many members of a fleet, each with its own API server and agent: real HTTPS, real
 * controllers, no nodes. It obeys the requests of its parent.
 */

import type { Probe } from "@fairlead/fleet/member/probes/tcp.ts";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  type EndpointSlice,
  ENDPOINT_SLICES,
  MANAGED_BY_LABEL,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { GLOBAL_SLICE_MANAGER, MCS_SLICE_MANAGER } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { IDENTITY_SLICES, type IdentitySlice } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/identities.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { NETWORK_POLICIES } from "@fairlead/kube/api/networking/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MCS_SERVICE_EXPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { startApiServer } from "@fairlead/apiserver/server.ts";
import { MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { joinCluster } from "@fairlead/fleet/cli/fleet/join.ts";
import { runAgent } from "@fairlead/fleet/member/agent/agent.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import { nowMs } from "./changes.ts";
import type { MemberShape, ServiceOf } from "./shape.ts";

export type Order =
  | { readonly do: "populate"; readonly members: readonly MemberShape[] }
  | { readonly do: "join"; readonly hubKubeconfig: string }
  | { readonly do: "change"; readonly member: string; readonly service: number; readonly address: string }
  | { readonly do: "changePod"; readonly member: string; readonly address: string }
  | { readonly do: "usage" }
  | { readonly do: "stop" };

/** Times are of the monotonic clock of the machine, which all processes share. Unit: milliseconds. */
export type Report =
  | { readonly done: "populate" | "join" | "stop" }
  | { readonly done: "change" | "changePod"; readonly atMs: number }
  | { readonly done: "seen"; readonly member: string; readonly address: string; readonly atMs: number }
  | { readonly done: "usage"; readonly heap: number; readonly endpoints: number };

type NamedPod = NonNullable<MemberShape["pod"]>;

interface Hosted {
  readonly shape: MemberShape;
  readonly client: KubeClient;
  readonly imported: Informer<EndpointSlice>;
  readonly identities: Informer<IdentitySlice>;
  readonly kubeconfig: string;
}

const deps = systemDeps(silentLogger);
const stack = new AsyncDisposableStack();
const stop = new AbortController();
const hosted = new Map<string, Hosted>();
/** Joins that run at a time: each waits for the hub most of the while. */
const JOINS_AT_A_TIME = 4;
const JOIN_TRIES = 50;
const JOIN_MS = 300_000;
const CLUSTER = "io.cilium.k8s.policy.cluster";
/** The network of addresses that only changes made during the measurement have. */
const WATCHED = /^172\./;

function report(it: Report): void {
  process.send?.(it);
}

async function host(shape: MemberShape): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), "fairlead-bench-member-"));
  stack.defer(() => rm(dataDir, { recursive: true, force: true }));
  const server = await startApiServer({ dataDir, journal: "none" });
  stack.defer(() => server.close());
  const client = stack.use(connect(await loadKubeconfig(server.kubeconfig), deps));
  await installCrds(client, { crds: MEMBER_CRDS, fieldManager: "bench" }, deps, stop.signal);
  for (const name of new Set(shape.services.map((it) => it.namespace)))
    await client.create(NAMESPACES, { metadata: { name } });
  for (const it of shape.services) if (it.addresses.length > 0) await deploy(client, it);
  if (shape.pod !== undefined) await runNamedPod(client, shape.pod);
  const labelSelector = `${MANAGED_BY_LABEL} in (${MCS_SLICE_MANAGER},${GLOBAL_SLICE_MANAGER})`;
  const imported = stack.use(createInformer(client, ENDPOINT_SLICES, { labelSelector }, deps));
  imported.start(stop.signal);
  const known = { namespace: FLEET_SYSTEM_NAMESPACE };
  const identities = stack.use(createInformer(client, IDENTITY_SLICES, known, deps));
  identities.start(stop.signal);
  hosted.set(shape.name, { shape, client, imported, identities, kubeconfig: server.kubeconfig });
}

async function deploy(
  client: KubeClient,
  { namespace, name, addresses, isGlobal = false }: ServiceOf,
): Promise<void> {
  const metadata = { namespace, name };
  const annotations = isGlobal ? { "service.cilium.io/global": "true" } : {};
  await client.create(SERVICES, {
    metadata: { ...metadata, annotations },
    spec: { ports: [{ name: "http", port: 80, targetPort: 8080 }] },
  });
  await client.create(ENDPOINT_SLICES, {
    metadata: { namespace, name: `${name}-1`, labels: { [SERVICE_NAME_LABEL]: name } },
    addressType: "IPv4",
    ports: [{ name: "http", port: 8080, protocol: "TCP" }],
    endpoints: addresses.map((address, at) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: `node-${at}`,
      zone: "zone-1",
    })),
  });
  if (!isGlobal) await client.create(MCS_SERVICE_EXPORTS, { metadata });
}

const POD = objectKey("shop", "web");

/** A pod on a node, and a policy that admits the pods with its labels of every cluster. */
async function runNamedPod(client: KubeClient, { address, cidr }: NamedPod): Promise<void> {
  await client.create(NODES, { metadata: { name: "n1" }, spec: { podCIDR: cidr, podCIDRs: [cidr] } });
  const labels = { app: "web" };
  await client.create(SERVICE_ACCOUNTS, { metadata: { namespace: "shop", name: "default" } });
  await client.create(PODS, {
    metadata: { namespace: "shop", name: "web", labels },
    spec: { nodeName: "n1", containers: [{ name: "main", image: "echo" }] },
  });
  await setPodAddress(client, address);
  await client.create(NETWORK_POLICIES, {
    metadata: { namespace: "shop", name: "web-of-all" },
    spec: {
      podSelector: {},
      ingress: [
        {
          from: [
            {
              podSelector: { matchLabels: labels, matchExpressions: [{ key: CLUSTER, operator: "Exists" }] },
            },
          ],
        },
      ],
    },
  });
}

async function setPodAddress(client: KubeClient, address: string): Promise<void> {
  const status = { phase: "Running" as const, podIP: address, podIPs: [{ ip: address }] };
  await client.mergePatch(PODS, POD, { status }, { subresource: "status" });
}

/** Runs the agent and joins. */
async function joinMember({ shape, kubeconfig }: Hosted, hubKubeconfig: string): Promise<void> {
  const member = await loadKubeconfig(kubeconfig);
  const local = stack.use(connect(member, deps));
  // There are no pods: connections would go to others that have these addresses.
  const probe: Probe = () => Promise.resolve("connected");
  const agent = runAgent({ local, connectHub: (config) => connect(config, deps), deps, probe }, stop.signal);
  stack.defer(() => agent);
  const hub = await loadKubeconfig(hubKubeconfig);
  const joinOnce = (): Promise<unknown> =>
    joinCluster({ name: shape.name, hub, member, timeoutMs: JOIN_MS }, deps, AbortSignal.timeout(JOIN_MS));
  // With so many in one process, an answer may take longer than a person would wait for it.
  for (let tries = 0; ; tries += 1)
    try {
      await joinOnce();
      return;
    } catch (error) {
      if (tries === JOIN_TRIES) throw error;
    }
}

/** Resolves when everything that the member should import, and know of pods, is there. */
function untilImported({ shape, imported, identities }: Hosted): Promise<void> {
  const others = shape.pod?.others ?? 0;
  return new Promise((resolve) => {
    const look = (): void => {
      if (imported.store.size < shape.imports.slices || identities.store.size < others) return;
      if (podsIn([...identities.store.list()]).length >= others) resolve();
    };
    stack.use(imported.subscribe(look));
    stack.use(identities.subscribe(look));
    look();
  });
}

function podsIn(slices: readonly IdentitySlice[]): readonly string[] {
  return slices.flatMap(({ spec }) => (spec.pods ?? []).flatMap((it) => it.addresses));
}

async function joinAll(hubKubeconfig: string): Promise<void> {
  const waiting = hosted.values();
  const work = async (): Promise<void> => {
    for (const it of waiting) await joinMember(it, hubKubeconfig);
  };
  await Promise.all(Array.from({ length: JOINS_AT_A_TIME }, work));
  await Promise.all([...hosted.values()].map(untilImported));
  for (const { shape, imported, identities } of hosted.values()) {
    const manager = shape.pod === undefined ? MCS_SLICE_MANAGER : GLOBAL_SLICE_MANAGER;
    const isOurs = (it: EndpointSlice): boolean => it.metadata.labels?.[MANAGED_BY_LABEL] === manager;
    stack.use(
      imported.subscribe(({ after }) => {
        if (after !== undefined && isOurs(after))
          reportSighting(shape.name, after.endpoints[0]?.addresses[0]);
      }),
    );
    stack.use(
      identities.subscribe(({ after }) => {
        if (after !== undefined) reportSighting(shape.name, podsIn([after])[0]);
      }),
    );
  }
}

function reportSighting(member: string, address: string | undefined): void {
  if (address !== undefined && WATCHED.test(address))
    report({ done: "seen", member, address, atMs: nowMs() });
}

async function changePod({ member, address }: Extract<Order, { do: "changePod" }>): Promise<void> {
  const of = hosted.get(member);
  if (of === undefined) throw new Error(`${member} is not here`);
  const atMs = nowMs();
  await setPodAddress(of.client, address);
  report({ done: "changePod", atMs });
}

async function change(order: Extract<Order, { do: "change" }>): Promise<void> {
  const of = hosted.get(order.member);
  const service = of?.shape.services.filter((it) => it.addresses.length > 0)[order.service];
  if (of === undefined || service === undefined) throw new Error(`${order.member} has no such service`);
  const atMs = nowMs();
  const endpoints = [{ addresses: [order.address], conditions: { ready: true }, zone: "zone-1" }];
  const key = objectKey(service.namespace, `${service.name}-1`);
  await of.client.mergePatch(ENDPOINT_SLICES, key, { endpoints });
  report({ done: "change", atMs });
}

async function obey(order: Order): Promise<void> {
  switch (order.do) {
    case "populate":
      for (const it of order.members) await host(it);
      return report({ done: "populate" });
    case "join":
      await joinAll(order.hubKubeconfig);
      return report({ done: "join" });
    case "change":
      return change(order);
    case "changePod":
      return changePod(order);
    case "usage": {
      globalThis.gc?.();
      const slices = [...hosted.values()].flatMap((it) => [...it.imported.store.list()]);
      const endpoints = slices.reduce((sum, it) => sum + it.endpoints.length, 0);
      return report({ done: "usage", heap: process.memoryUsage().heapUsed, endpoints });
    }
    case "stop":
      stop.abort();
      await stack.disposeAsync();
      report({ done: "stop" });
      process.disconnect();
      return undefined;
    default:
      return order satisfies never;
  }
}

process.on("message", (order) => {
  obey(order as Order).catch((error: unknown) => {
    console.error(error);
    process.exit(1);
  });
});
