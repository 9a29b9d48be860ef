/** One service of the Multi-Cluster Services API in a lab, in its own namespace, and queries about it. */

import {
  DEPLOYMENTS,
  type Deployment,
  STATEFUL_SETS,
  type StatefulSet,
} from "@fairlead/kube/api/apps/v1/types.ts";
import { NAMESPACES, SERVICES, type Service } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  type Allocation,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
  type ServiceExport,
  type ServiceImport,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { eventually, eventuallyOne, until } from "../support/waiting.ts";
import { requestLoop } from "../../scripts/demo/requests.ts";
import { parseTries, startLab, type TestLab } from "../support/lab-fixture.ts";
import { makeNamespace, untilReady } from "../support/lab-actions.ts";
import { echoDeployment, shellPod } from "../support/lab-manifests.ts";
import { untilConnected } from "./parallel-lab.ts";

/** The exporter is not the first by name, so that who wins by age does not win by name too. */
export const EXPORTER = "member-2";
export const OTHER = "member-1";
export const CLUSTERS = [EXPORTER, OTHER, "member-3"] as const;

const ASKER = { namespace: "askers", name: "asker" };
const NAME = "hello";

/** By the name, and by each address. */
const REQUESTS = 4;

type ServiceSpec = NonNullable<Service["spec"]>;
type Ports = NonNullable<ServiceSpec["ports"]>;

export const PORTS: Ports = [
  { name: "tcp", protocol: "TCP", port: 42, targetPort: 8080 },
  { name: "udp", protocol: "UDP", port: 42, targetPort: 8080 },
];

/** Three clusters, with a pod in each that asks. */
export async function startMcsLab(name: string, flags: readonly string[] = []): Promise<TestLab> {
  const lab = await startLab({ name, members: CLUSTERS.length, flags });
  await Promise.all([
    untilConnected(lab, CLUSTERS),
    ...CLUSTERS.map(async (cluster) => {
      const client = await lab.client(cluster);
      await makeNamespace(client, ASKER.namespace);
      await lab.apply(cluster, shellPod(ASKER));
      await untilReady(client, ASKER);
    }),
  ]);
  return lab;
}

export class Scenario {
  readonly lab: TestLab;
  readonly namespace: string;
  readonly key: ObjectKey;
  /** Its name in the cluster set. */
  readonly host: string;

  constructor(lab: TestLab, at: string) {
    this.lab = lab;
    this.namespace = at;
    this.key = objectKey(at, NAME);
    this.host = `${NAME}.${at}.svc.clusterset.local`;
  }

  /** With the namespace in these clusters. */
  static async start(lab: TestLab, at: string, clusters: readonly string[] = CLUSTERS): Promise<Scenario> {
    await Promise.all(
      clusters.map(async (it) => (await lab.client(it)).create(NAMESPACES, { metadata: { name: at } })),
    );
    return new Scenario(lab, at);
  }

  /** The Service, with labels and annotations that no program reads. */
  async serve(cluster: string, spec: object = {}): Promise<Service> {
    const own = { "dummy-svc": "dummy" };
    return (await this.lab.client(cluster)).create(SERVICES, {
      metadata: { namespace: this.namespace, name: NAME, labels: own, annotations: own },
      spec: {
        selector: { app: NAME },
        ports: PORTS,
        sessionAffinity: "ClientIP",
        sessionAffinityConfig: { clientIP: { timeoutSeconds: 10 } },
        ipFamilyPolicy: "PreferDualStack",
        ...spec,
      },
    });
  }

  /** Pods that answer, one for each replica. */
  async run(cluster: string, replicas = 1): Promise<void> {
    const deployment = echoDeployment({ namespace: this.namespace, name: NAME }, replicas);
    await (await this.lab.client(cluster)).create(DEPLOYMENTS, deployment as unknown as Deployment);
  }

  async runStateful(cluster: string, replicas: number): Promise<void> {
    const { spec } = echoDeployment({ namespace: this.namespace, name: NAME }, replicas);
    const metadata = { namespace: this.namespace, name: NAME };
    const set = { metadata, spec: { ...(spec as object), serviceName: NAME } };
    await (await this.lab.client(cluster)).create(STATEFUL_SETS, set as unknown as StatefulSet);
  }

  async export(cluster: string, spec: ServiceExport["spec"] = {}): Promise<ServiceExport> {
    const own = { "dummy-svcexport": "dummy" };
    const metadata = { namespace: this.namespace, name: NAME, labels: own, annotations: own };
    return (await this.lab.client(cluster)).create(MCS_SERVICE_EXPORTS, { metadata, spec });
  }

  /** The same from another cluster, by an export that is younger than that of the exporter: times have whole seconds. */
  async exportLater(cluster: string, spec: object, more: ServiceExport["spec"] = {}): Promise<void> {
    const older = await (await this.lab.client(EXPORTER)).get(MCS_SERVICE_EXPORTS, this.key);
    const createdMs = Date.parse(older.metadata.creationTimestamp ?? "");
    await this.import(EXPORTER);
    await this.serve(cluster, spec);
    await until(
      "the next second",
      () => Promise.resolve(systemClock.now()),
      (it) => it >= createdMs + 1000,
    );
    await this.export(cluster, more);
  }

  async unexport(cluster: string): Promise<void> {
    await (await this.lab.client(cluster)).delete(MCS_SERVICE_EXPORTS, this.key);
  }

  /** The import, once it is so. */
  async import(cluster: string, isSo: (it: ServiceImport) => boolean = () => true): Promise<ServiceImport> {
    return eventuallyOne(await this.lab.client(cluster), MCS_SERVICE_IMPORTS, this.key, isSo);
  }

  /** The import, once it stands for exactly these clusters. */
  async importOf(cluster: string, exporters: readonly string[]): Promise<ServiceImport> {
    const wanted = exporters.toSorted().join();
    return this.import(cluster, (it) => clustersOf(it).join() === wanted);
  }

  async untilNoImport(cluster: string): Promise<void> {
    const isThis = (it: ServiceImport): boolean =>
      objectKey(it.metadata.namespace, it.metadata.name) === this.key;
    await eventually(await this.lab.client(cluster), MCS_SERVICE_IMPORTS, (all) => !all.some(isThis));
  }

  /** Names of all imports in the namespace, once there are that many or more. */
  async importNames(cluster: string, count: number): Promise<readonly string[]> {
    const client = await this.lab.client(cluster);
    const options = { namespace: this.namespace };
    const all = await eventually(client, MCS_SERVICE_IMPORTS, (some) => some.length >= count, options);
    return all.map((it) => it.metadata.name).toSorted();
  }

  /** The reason that a ServiceExport gives, once its condition has that status. */
  async condition(cluster: string, type: string, status: "True" | "False", reason?: string): Promise<string> {
    const client = await this.lab.client(cluster);
    const found = await eventuallyOne(client, MCS_SERVICE_EXPORTS, this.key, (it) => {
      const condition = findCondition(it.status?.conditions, type);
      return condition?.status === status && (reason === undefined || condition.reason === reason);
    });
    return findCondition(found.status?.conditions, type)?.reason ?? "";
  }

  /** The reasons of the condition Conflict of both exports, once it is True. */
  async conflict(): Promise<string> {
    const [reason = "", other] = await Promise.all(
      [EXPORTER, OTHER].map((it) => this.condition(it, "Conflict", "True")),
    );
    return reason === other ? reason : `${reason} and ${other}`;
  }

  /** The slices of the import, once they are so. */
  async slices(
    cluster: string,
    isEnough: (slices: readonly EndpointSlice[]) => boolean,
  ): Promise<readonly EndpointSlice[]> {
    const ours = (all: readonly EndpointSlice[]): readonly EndpointSlice[] =>
      all.filter((it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === NAME);
    const options = { namespace: this.namespace };
    const client = await this.lab.client(cluster);
    return ours(await eventually(client, ENDPOINT_SLICES, (all) => isEnough(ours(all)), options));
  }

  /** Addresses of the ready pods of the Service in its own cluster, by family, once there are that many. */
  async podAddresses(cluster: string, family: "IPv4" | "IPv6", count: number): Promise<readonly string[]> {
    const endpoints = await this.#endpoints(cluster, family, count);
    return endpoints.flatMap((it) => it.addresses).toSorted();
  }

  /** Addresses by which pods of `from` reach the ready pods of the Service in another cluster, or in their own. */
  async addressesFrom(
    from: string,
    cluster: string,
    family: "IPv4" | "IPv6",
    count: number,
  ): Promise<readonly string[]> {
    if (from === cluster || this.lab.topology.spec.topology === "flat")
      return this.podAddresses(cluster, family, count);
    const endpoints = await this.#endpoints(cluster, family, count);
    const pods = new Set(endpoints.map((it) => it.targetRef?.uid));
    const found = (all: readonly AddressBlock[]): readonly Allocation[] =>
      all.flatMap((it) => it.status?.allocations ?? []).filter((it) => pods.has(it.podUID));
    const client = await this.lab.client(cluster);
    const blocks = await eventually(client, ADDRESS_BLOCKS, (all) => found(all).length === count, {});
    return found(blocks)
      .map((it) => (family === "IPv4" ? it.ipv4 : it.ipv6))
      .toSorted();
  }

  async #endpoints(
    cluster: string,
    family: "IPv4" | "IPv6",
    count: number,
  ): Promise<EndpointSlice["endpoints"]> {
    const endpoints = (all: readonly EndpointSlice[]): EndpointSlice["endpoints"] =>
      all
        .filter((it) => it.metadata.labels?.[SERVICE_NAME_LABEL] === NAME && it.addressType === family)
        .flatMap((it) => it.endpoints.filter((one) => one.conditions?.ready !== false));
    const options = { namespace: this.namespace };
    const client = await this.lab.client(cluster);
    return endpoints(
      await eventually(client, ENDPOINT_SLICES, (all) => endpoints(all).length === count, options),
    );
  }

  /** Lines of an answer of the cluster's DNS, sorted. */
  async lookUp(cluster: string, name: string, type: string): Promise<readonly string[]> {
    const text = await this.inAsker(cluster, `dig +short ${name} ${type}`);
    return text
      .split("\n")
      .filter((it) => it !== "")
      .toSorted();
  }

  /** The same, once it is as it should be. */
  async untilFound(
    cluster: string,
    [name, type]: readonly [string, string],
    lines: readonly string[],
  ): Promise<void> {
    await until(
      `${type} of ${name} in ${cluster} is ${lines.join(" ")}`,
      () => this.lookUp(cluster, name, type),
      (it) => it.join() === lines.toSorted().join(),
    );
  }

  inAsker(cluster: string, script: string): Promise<string> {
    return this.lab.inPod(cluster, `${ASKER.namespace}/${ASKER.name}`, script);
  }

  /** Clusters whose pods answered requests from a cluster, sorted; "none" stands for requests without an answer. */
  async answeredBy(
    cluster: string,
    urls: readonly string[],
    count = 10,
    everyMs = 0,
  ): Promise<readonly string[]> {
    const script = urls.map((url) => requestLoop(url, count, everyMs)).join("\n");
    const tries = parseTries(await this.inAsker(cluster, script));
    return [...new Set(tries.map((it) => it.cluster ?? "none"))].toSorted();
  }

  /** The clusters that answered on port 42 from now until the signal aborts, and in one more round after it. */
  async answeredUntil(signal: AbortSignal, cluster: string): Promise<readonly string[]> {
    const seen = new Set<string>();
    for (let isLast = false; !isLast;) {
      isLast = signal.aborted;
      for (const it of await this.answeredBy(cluster, [urlOf(this.host, 42)], 20, 50)) seen.add(it);
    }
    return [...seen].toSorted();
  }

  /** From every cluster, by name and by each address: requests in a row are answered by these clusters and no other. */
  async untilAnsweredBy(exporters: readonly string[], port = 42): Promise<void> {
    const wanted = exporters.toSorted().join();
    await inEveryCluster(async (cluster) => {
      const { spec } = await this.import(cluster, (it) => (it.spec?.ips ?? []).length > 0);
      const urls = [this.host, ...(spec?.ips ?? [])].map((host) => urlOf(host, port));
      await until(
        `${wanted} answers ${urls.join(" ")} in ${cluster}`,
        () => this.answeredBy(cluster, urls, REQUESTS),
        (it) => it.join() === wanted,
      );
    });
  }
}

export function urlOf(host: string, port: number): string {
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}/`;
}

export function clustersOf(it: ServiceImport): readonly string[] {
  return (it.status?.clusters ?? []).map((one) => one.cluster).toSorted();
}

/** Ports as they can be compared with those of a Service. */
export function importPorts(ports: Ports): readonly object[] {
  return ports.map(({ targetPort: _target, ...it }) => it);
}

export async function inEveryCluster<T>(look: (cluster: string) => Promise<T>): Promise<readonly T[]> {
  return Promise.all(CLUSTERS.map((it) => look(it)));
}
