import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  type EndpointSlice,
  ENDPOINT_SLICES,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { NAMESPACES, type Service, SERVICES, type ServicePort } from "@fairlead/kube/api/core/v1/types.ts";
import { defined } from "@fairlead/base/defined.ts";
import {
  HUB_ACCESS,
  HUB_PLACEMENT_ACCESS,
  MEMBER_ACCESS,
  MEMBER_NODES_ACCESS,
  MEMBER_WORK_ACCESS,
  MEMBER_UPGRADES_ACCESS,
  type ProgramAccess,
  PROGRAMS,
} from "@fairlead/fleet/authz/programs.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MCS_SERVICE_EXPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { type ApiServer, type ApiServerOptions, startApiServer } from "@fairlead/apiserver/server.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { createLogger } from "@fairlead/base/log.ts";
import { joinCluster } from "@fairlead/fleet/cli/fleet/join.ts";
import { type Hub, type HubOptions, startHub } from "@fairlead/fleet/hub/hub.ts";
import { runAgent } from "@fairlead/fleet/member/agent/agent.ts";
import type { Member } from "@fairlead/fleet/member/member.ts";
import type { Probe } from "@fairlead/fleet/member/probes/tcp.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { type RuntimeDeps, systemDeps } from "@fairlead/base/deps.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { IS_REAL, startRealApiServer } from "../../packages/apiserver/test/real-server.ts";
import { AccessLog, configAs, grant, PROGRAM_AGENT, type Standing, tokensOf } from "./access.ts";

/** A hub and members in this process: real API servers, real controllers, no nodes. */

export interface TestCluster extends AsyncDisposable {
  readonly name: string;
  readonly config: ClusterConfig;
  readonly client: KubeClient;
  readonly server: ApiServer;
  readonly dataDir: string;
  /** What its programs asked for. */
  readonly asked: AccessLog;
  /** Stops its API server, has its folder changed, and starts it again at the same port. It needs a journal. */
  restart(change?: (dataDir: string) => Promise<void>): Promise<void>;
}

const level = process.env["FLEET_TEST_LOG"] === undefined ? "silent" : "debug";

export function testDeps(name: string): RuntimeDeps {
  return systemDeps(createLogger(name, level));
}

/** Longest wait for anything in these tests. Unit: milliseconds. */
export const PATIENCE_MS = 20_000;
/** Members join at once, and each creates an authority and keys, which takes time on a busy machine. Unit: milliseconds. */
const JOIN_PATIENCE_MS = 45_000;

export async function startCluster(
  name: string,
  programs: readonly ProgramAccess[],
  options: Pick<ApiServerOptions, "serviceRanges" | "clock" | "journal"> = {},
): Promise<TestCluster> {
  const dataDir = await mkdtemp(join(tmpdir(), `fairlead-test-${name}-`));
  const asked = new AccessLog();
  const authentication = tokensOf([...new Set([...PROGRAMS, ...programs])]);
  // Of a real one it is not known what programs asked for, and its clock is the machine's.
  const start = (port: number): Promise<ApiServer> =>
    IS_REAL
      ? startRealApiServer({ tokens: authentication.staticTokens, ...options })
      : startApiServer({ dataDir, port, journal: "none", audit: asked.audit, authentication, ...options });
  let server = await start(0);
  const config = await loadKubeconfig(server.kubeconfig);
  const client = connect(config, testDeps(name));
  await grant(client, programs);
  return {
    name,
    config,
    client,
    get server() {
      return server;
    },
    dataDir,
    asked,
    async restart(change) {
      await server.close();
      await change?.(dataDir);
      server = await start(server.port);
    },
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await server.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** A process that can be stopped and started again: a hub's controllers, or a member's agent. */
export class Restartable implements AsyncDisposable {
  readonly #run: (signal: AbortSignal) => Promise<void>;
  #stop = new AbortController();
  #running: Promise<void> | undefined;
  constructor(run: (signal: AbortSignal) => Promise<void>) {
    this.#run = run;
  }
  start(): void {
    this.#stop = new AbortController();
    this.#running = this.#run(this.#stop.signal);
    this.#running.catch(() => {});
  }
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running?.catch(() => {});
    this.#running = undefined;
  }
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

export interface TestFleet extends AsyncDisposable {
  readonly hub: TestCluster;
  readonly hubProgram: Restartable;
  readonly members: ReadonlyMap<string, TestCluster>;
  readonly agents: ReadonlyMap<string, Restartable>;
  readonly running: ReadonlyMap<string, Member>;
  readonly runningHub: () => Hub | undefined;
  client(name: string): KubeClient;
}

export interface FleetOptions {
  readonly members: readonly string[];
  readonly leaseSeconds?: number;
  readonly forceDeleteSeconds?: number;
  /** Of members. Default: 1. */
  readonly heartbeatSeconds?: Readonly<Record<string, number>>;
  /** Default: all endpoints answer. */
  readonly probe?: (member: string) => Probe;
  readonly trafficManager?: HubOptions["trafficManager"];
  /** Ranges of Service addresses, by member. Default: the server's own. */
  readonly serviceRanges?: Readonly<Record<string, readonly string[]>>;
  /** By program ("hub", "a") and API server ("hub/apiserver"). Default: the system's. */
  readonly clocks?: Readonly<Record<string, Clock>>;
  /** Whether the hub's API server can be started again with what it had. Default: false. */
  readonly hubJournal?: boolean;
  /** Default: all. */
  readonly join?: readonly string[];
  /** The member whose cluster is the hub's. Default: none. */
  readonly inHub?: string;
  /** Where a member reaches the hub, by the hub's port. Default: there. */
  readonly hubServerOf?: (member: string, port: number) => Promise<string | undefined>;
  /** Members that speak to the hub as a ServiceAccount. Default: none. */
  readonly byToken?: readonly string[];
  /** Members whose ServiceImports users create. Default: none. */
  readonly manualImports?: readonly string[];
  /** Members that install node agents, out of this repository. Default: none. */
  readonly nodeImages?: Readonly<Record<string, string>>;
  /** Whether these serve metrics on all addresses of their nodes. Default: false. */
  readonly exposeNodeMetrics?: boolean;
  /** Places resources: the hub reads everything, and members apply with all rights. Default: false. */
  readonly placement?: boolean;
  /** Whether ConfigMaps may be envelopes. Default: false. */
  readonly configMapEnvelopes?: boolean;
  /** Members report their namespaces. Default: false. */
  readonly collectNamespaces?: boolean;
  readonly compileRule?: HubOptions["compileRule"];
  /** Members that may upgrade their clusters. Default: none. */
  readonly upgradable?: readonly string[];
  /** What each program is given in the place of its clients, each time it starts. Default: these. */
  readonly wrap?: (client: KubeClient) => KubeClient;
}

export async function startFleet(options: FleetOptions): Promise<TestFleet> {
  const { wrap = same } = options;
  await using stack = new AsyncDisposableStack();
  const depsOf = (name: string): RuntimeDeps => ({ ...testDeps(name), ...clockOf(options, name) });
  const programs = [
    HUB_ACCESS,
    ...(options.placement === true ? [HUB_PLACEMENT_ACCESS] : []),
    ...(options.inHub === undefined ? [] : [MEMBER_ACCESS]),
  ];
  const hub = stack.use(
    await startCluster("hub", programs, {
      ...clockOf(options, "hub/apiserver"),
      ...(options.hubJournal === true ? { journal: "sqlite" as const } : {}),
    }),
  );
  let currentHub: Hub | undefined;
  const hubProgram = stack.use(
    new Restartable(async (signal) => {
      await using client = wrap(connectProgram(configAs(HUB_ACCESS, hub.config), depsOf("hub")));
      const { leaseSeconds, forceDeleteSeconds, trafficManager } = options;
      const lease = {
        ...(leaseSeconds === undefined ? {} : { leaseSeconds }),
        ...(forceDeleteSeconds === undefined ? {} : { forceDeleteSeconds }),
        ...defined({ compileRule: options.compileRule }),
      };
      await using running = await startHub(
        client,
        {
          ...lease,
          ...defined({
            trafficManager,
            placement: options.placement,
            configMapEnvelopes: options.configMapEnvelopes,
          }),
        },
        depsOf("hub"),
        signal,
      );
      currentHub = running;
      await aborted(signal);
      currentHub = undefined;
    }),
  );
  hubProgram.start();
  const members = new Map<string, TestCluster>();
  const agents = new Map<string, Restartable>();
  const running = new Map<string, Member>();
  for (const name of options.members) {
    const serviceRanges = options.serviceRanges?.[name];
    const more = {
      ...clockOf(options, `${name}/apiserver`),
      ...(serviceRanges === undefined ? {} : { serviceRanges }),
    };
    const cluster =
      name === options.inHub ? hub : stack.use(await startCluster(name, accessOf(options, name), more));
    members.set(name, cluster);
    // There are no pods: connections would go to others that have these addresses.
    const probe: Probe = options.probe?.(name) ?? (() => Promise.resolve("connected"));
    const agent = stack.use(
      new Restartable(async (signal) => {
        const deps = depsOf(name);
        await using local = wrap(connectProgram(configAs(MEMBER_ACCESS, cluster.config), deps));
        await runAgent(
          {
            local,
            connectHub: (config) => wrap(connectProgram(config, deps)),
            deps,
            probe,
            ...defined({
              nodeImage: options.nodeImages?.[name],
              exposeNodeMetrics: options.exposeNodeMetrics,
              placement: options.placement,
              collectNamespaces: options.collectNamespaces,
            }),
            address: { server: cluster.config.server, ...defined({ ca: cluster.config.ca }) },
            ...(options.manualImports?.includes(name) === true ? { imports: "manual" } : {}),
            onMember: (member) => (member === undefined ? running.delete(name) : running.set(name, member)),
          },
          signal,
        );
      }),
    );
    agents.set(name, agent);
    agent.start();
  }
  const joinMember = async (name: string): Promise<void> => {
    await joinCluster(
      {
        name,
        hub: hub.config,
        ...defined({ hubServer: await options.hubServerOf?.(name, hub.server.port) }),
        member: at(members, name).config,
        heartbeatSeconds: options.heartbeatSeconds?.[name] ?? 1,
        ...(options.byToken?.includes(name) === true ? { identity: "token" as const } : {}),
        timeoutMs: JOIN_PATIENCE_MS,
      },
      testDeps("join"),
      // After the reports on the progress of the join.
      AbortSignal.timeout(JOIN_PATIENCE_MS + 5000),
    );
  };
  await firstBeforeOthers(options.join ?? options.members, joinMember);
  const held = stack.move();
  return {
    hub,
    hubProgram,
    members,
    agents,
    running,
    runningHub: () => currentHub,
    client: (name) => (name === "hub" ? hub.client : at(members, name).client),
    async [Symbol.asyncDispose]() {
      const standing = await standingOn(hub.client);
      await held.disposeAsync();
      const refused = [
        ...hub.asked.refused(standing),
        ...[...members.values()].flatMap((it) => it.asked.refused()),
      ];
      if (refused.length > 0)
        throw new Error(
          `programs were refused what packages/fleet/src/authz/ does not declare:\n${refused.map((it) => JSON.stringify(it)).join("\n")}`,
        );
    },
  };
}

/** The first installs the definitions of the hub, which others find: at once, each would write them. */
async function firstBeforeOthers(
  names: readonly string[],
  joinMember: (name: string) => Promise<void>,
): Promise<void> {
  for (const name of names.slice(0, 1)) await joinMember(name);
  await Promise.all(names.slice(1).map((it) => joinMember(it)));
}

function accessOf({ nodeImages, placement, upgradable }: FleetOptions, name: string): ProgramAccess[] {
  return [
    MEMBER_ACCESS,
    ...(nodeImages?.[name] === undefined ? [] : [MEMBER_NODES_ACCESS]),
    ...(placement === true ? [MEMBER_WORK_ACCESS] : []),
    ...(upgradable?.includes(name) === true ? [MEMBER_UPGRADES_ACCESS] : []),
  ];
}

/** A test may have ended the hub's server: there are no members then. */
async function standingOn(hub: KubeClient): Promise<Standing> {
  const none = { items: [] };
  const namespaces = await hub.list(NAMESPACES).catch(() => none);
  const members = await hub.list(MEMBER_CLUSTERS).catch(() => none);
  return {
    namespaces: new Set(namespaces.items.map((it) => it.metadata.name)),
    identities: new Set(members.items.map((it) => it.spec.identity.name)),
  };
}

function clockOf({ clocks }: FleetOptions, name: string): { readonly clock?: Clock } {
  const clock = clocks?.[name];
  return clock === undefined ? {} : { clock };
}

function same(client: KubeClient): KubeClient {
  return client;
}

export function connectProgram(config: ClusterConfig, deps: RuntimeDeps): KubeClient {
  return connect(config, { ...deps, userAgent: PROGRAM_AGENT });
}

function at<T>(map: ReadonlyMap<string, T>, name: string): T {
  const value = map.get(name);
  if (value === undefined) throw new Error(`no cluster ${name}`);
  return value;
}

export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

export async function ensureNamespace(client: KubeClient, name: string): Promise<void> {
  if ((await client.find(NAMESPACES, objectKey(undefined, name))) === undefined)
    await client.create(NAMESPACES, { metadata: { name } });
}

export interface Workload {
  readonly namespace?: string;
  readonly name?: string;
  readonly ports?: readonly ServicePort[];
  readonly headless?: boolean;
  /** Addresses of ready pods. */
  readonly addresses: readonly string[];
  readonly service?: Partial<NonNullable<Service["spec"]>>;
}

const HTTP: readonly ServicePort[] = [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }];

/** A Service with a slice, as the controllers of a real cluster would make it. */
export async function deploy(client: KubeClient, workload: Workload): Promise<void> {
  const { namespace = "work", name = "hello", headless = false, addresses } = workload;
  const ports = workload.ports ?? HTTP;
  await ensureNamespace(client, namespace);
  await client.create(SERVICES, {
    metadata: { namespace, name },
    spec: {
      selector: { app: name },
      ports: [...ports],
      ...(headless ? { clusterIP: "None" } : {}),
      ...workload.service,
    },
  });
  await client.create(ENDPOINT_SLICES, sliceOf({ ...workload, namespace, name, addresses, ports }));
}

export function sliceOf(workload: Workload & { readonly suffix?: string }): EndpointSlice {
  const { namespace = "work", name = "hello", addresses, ports = HTTP, suffix = "abcde" } = workload;
  return {
    metadata: { namespace, name: `${name}-${suffix}`, labels: { [SERVICE_NAME_LABEL]: name } },
    addressType: addresses[0]?.includes(":") === true ? "IPv6" : "IPv4",
    endpoints: addresses.map((address, index) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: `node-${index}`,
      zone: "zone-a",
    })),
    ports: ports.map((port) => ({
      ...(port.name === undefined ? {} : { name: port.name }),
      protocol: port.protocol ?? "TCP",
      port: typeof port.targetPort === "number" ? port.targetPort : port.port,
    })),
  };
}

export async function exportBy(
  api: "fleet" | "mcs",
  client: KubeClient,
  options: {
    readonly namespace?: string;
    readonly name?: string;
    readonly annotations?: Record<string, string>;
  } = {},
): Promise<void> {
  const { namespace = "work", name = "hello", annotations } = options;
  const metadata = { namespace, name, ...(annotations === undefined ? {} : { annotations }) };
  if (api === "fleet") await client.create(FLEET_SERVICE_EXPORTS, { metadata });
  else await client.create(MCS_SERVICE_EXPORTS, { metadata });
}

/** Addresses of all endpoints, sorted. */
export function addressesOf(slices: readonly EndpointSlice[]): string[] {
  return slices.flatMap((slice) => slice.endpoints.flatMap((it) => it.addresses)).toSorted();
}
