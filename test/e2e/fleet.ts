/** Installs a fleet on the clusters of a run as docs/install.md says, and takes all of it away again. */

import { expect } from "vitest";
import { messageOf } from "@fairlead/base/errors.ts";
import { type Clusters, until, SYSTEM } from "./clusters.ts";
import { Load, type Tally } from "./load.ts";
import { client, CLIENT, KINDS, NAMESPACE, namespace, scripts, server, service } from "./manifests.ts";
import { PLACED_NAMESPACES, Placements } from "./placements.ts";
import { MeshNetwork } from "./network.ts";
import { type AnyObject, type Snapshot, takeSnapshot } from "./snapshot.ts";

export const HELLO = "hello";
export const REPLICAS = 3;

interface Slice {
  readonly addressType: string;
  readonly endpoints?: readonly unknown[] | null;
}

interface Serving {
  readonly replicas?: number;
  readonly kind?: "Deployment" | "StatefulSet";
  /** More of the Service. */
  readonly spec?: object;
}

export class Fleet {
  readonly clusters: Clusters;
  /** What each cluster had before. */
  readonly before = new Map<string, Snapshot>();
  readonly load: Load;
  readonly network: MeshNetwork;
  readonly placements: Placements;

  constructor(clusters: Clusters) {
    this.clusters = clusters;
    this.load = new Load(clusters, this.importer);
    this.network = new MeshNetwork(clusters);
    this.placements = new Placements(clusters);
  }

  get exporter(): string {
    return this.clusters.members[0] ?? "";
  }

  /** Where the client is. It exports, too, where a case wants two exporters. */
  get importer(): string {
    return this.clusters.members[1] ?? "";
  }

  /** Records the present objects. @throws If there is already a fleet, or the remains of an earlier run. */
  async look(): Promise<void> {
    for (const cluster of this.clusters.all) {
      const snapshot = await takeSnapshot(this.clusters, cluster);
      for (const name of [SYSTEM, ...NAMESPACES])
        if (snapshot.has(`Namespace /${name}`) && !(this.network.hasAgents && name === SYSTEM))
          throw new Error(
            `cluster ${cluster} has namespace ${name} already: the suite wants clusters without Fairlead`,
          );
      this.before.set(cluster, snapshot);
    }
  }

  /** A server and its Service. */
  async serve(cluster: string, name: string, more: Serving = {}): Promise<void> {
    const { image } = this.clusters.settings;
    const { replicas = REPLICAS, kind = "Deployment", spec = {} } = more;
    await this.clusters.apply(
      cluster,
      namespace(),
      scripts(),
      server({ name, cluster, image, replicas, kind }),
      service(name, { ...spec }),
    );
    await this.clusters.rolledOut(cluster, NAMESPACE, `${kind.toLowerCase()}/${name}`);
  }

  /** The first pod of an app. */
  async podOf(cluster: string, app: string): Promise<string> {
    const named = ["-n", NAMESPACE, "get", "pods", "-l", `app=${app}`, "-o", "name"];
    return (await this.clusters.kubectl(cluster, named)).split("\n")[0]?.replace("pod/", "") ?? "";
  }

  async startClient(targets: readonly string[], name = CLIENT): Promise<void> {
    const { image } = this.clusters.settings;
    await this.clusters.apply(this.importer, namespace(), scripts(), client(name, image, targets));
    await this.clusters.rolledOut(this.importer, NAMESPACE, `deployment/${name}`);
  }

  /** Runs the client's script in its pod. */
  async inClient<T>(...args: readonly string[]): Promise<T> {
    const exec = ["-n", NAMESPACE, "exec", `deployment/${CLIENT}`, "--", "node", "/e2e/client.mjs", ...args];
    return JSON.parse(await this.clusters.kubectl(this.importer, exec)) as T;
  }

  /** That ten requests of the client are all answered by this cluster. */
  async expectAnswers(url: string, cluster: string): Promise<void> {
    const { by, errors } = await this.inClient<Tally>("ask", url, "10");
    expect({ url, by, errors }).toEqual({ url, by: { [cluster]: 10 }, errors: {} });
  }

  /** By which the server sees the client in ten requests. */
  async clientAddresses(url: string): Promise<readonly string[]> {
    const { clients, errors } = await this.inClient<Tally>("ask", url, "10");
    expect({ url, errors }).toEqual({ url, errors: {} });
    return Object.keys(clients);
  }

  async scale(cluster: string, name: string, replicas: number): Promise<void> {
    await this.clusters.kubectl(cluster, [
      "-n",
      NAMESPACE,
      "scale",
      `deployment/${name}`,
      `--replicas=${replicas}`,
    ]);
    await this.clusters.rolledOut(cluster, NAMESPACE, `deployment/${name}`);
  }

  /** The addresses by which a member has a service. */
  async importedAddresses(name: string, member = this.importer): Promise<readonly string[]> {
    const found = await this.clusters.find<{ spec?: { ips?: readonly string[] } }>(member, [
      "-n",
      NAMESPACE,
      KINDS.mcsImport,
      name,
    ]);
    return found?.spec?.ips ?? [];
  }

  /** How many endpoints the importer's service proxy is offered, in the family that has most. */
  async offered(name: string): Promise<number> {
    const found = await this.clusters.find<{ items: readonly Slice[] }>(this.importer, [
      "-n",
      NAMESPACE,
      "endpointslices",
      "-l",
      `multicluster.kubernetes.io/service-name=${name}`,
    ]);
    const counts = new Map<string, number>();
    for (const { addressType, endpoints } of found?.items ?? [])
      counts.set(addressType, (counts.get(addressType) ?? 0) + (endpoints ?? []).length);
    return Math.max(0, ...counts.values());
  }

  /**
   * Deletes everything that the run created. Absent objects are fine: the run may have ended anywhere. A step that fails keeps none of the
   * others from being tried.
   *
   * @throws {AggregateError} At the end, if any failed.
   */
  async remove(): Promise<void> {
    const { clusters } = this;
    const steps = new Steps();
    await steps.try("remove the network", () => this.network.remove());
    await steps.try("remove what is placed", async () => {
      if (await this.#serves(clusters.hub, KINDS.placement)) await this.placements.remove();
    });
    for (const cluster of clusters.members) await this.#removeMember(cluster, steps);
    await steps.try("uninstall the hub", () =>
      clusters.helm(clusters.hub, ["uninstall", "fairlead-hub", "--wait", "--ignore-not-found"]),
    );
    for (const cluster of clusters.all) await steps.try(`clear ${cluster}`, () => this.#clear(cluster));
    steps.end();
  }

  async #removeMember(cluster: string, steps: Steps): Promise<void> {
    const { clusters } = this;
    const gone = ["--ignore-not-found", "--timeout=120s"];
    await steps.try(`withdraw the exports and imports of ${cluster}`, async () => {
      for (const kind of [KINDS.multiClusterService, KINDS.fleetExport, KINDS.mcsExport])
        if (await this.#serves(cluster, kind))
          await clusters.kubectl(cluster, ["-n", NAMESPACE, "delete", kind, "--all", ...gone]);
    });
    await steps.try(`let ${cluster} leave`, async () => {
      if (await this.#isMember(cluster)) await clusters.fairlead(["leave", ...clusters.ofMember(cluster)]);
    });
    await steps.try(`undo the DNS of ${cluster}`, () =>
      clusters.fairlead(["dns", "setup", "--context", cluster, "--undo"]),
    );
    await steps.try(`uninstall ${cluster}`, () =>
      clusters.helm(cluster, ["uninstall", "fairlead-member", "--wait", "--ignore-not-found"]),
    );
  }

  async #isMember(cluster: string): Promise<boolean> {
    const kind = "memberclusters.cluster.kubernetes-fleet.io";
    if (!(await this.#serves(this.clusters.hub, kind))) return false;
    return (await this.clusters.find(this.clusters.hub, [kind, cluster])) !== undefined;
  }

  async #serves(cluster: string, kind: string): Promise<boolean> {
    return (await this.clusters.find(cluster, ["crd", kind])) !== undefined;
  }

  /**
   * What docs/install.md says of what stays: kinds, namespaces, and the right to ask for certificates; and the requests for
   * them, which Kubernetes would keep for an hour.
   */
  async #clear(cluster: string): Promise<void> {
    const { clusters } = this;
    const before = this.before.get(cluster) ?? new Map<string, string>();
    const named = await clusters.find<{ items: readonly AnyObject[] }>(cluster, ["crd,namespaces,csr"]);
    const ours = (named?.items ?? []).filter(
      ({ kind, metadata }) =>
        (kind === "Namespace" &&
          ([SYSTEM, ...NAMESPACES].includes(metadata.name) || VIEW.test(metadata.name))) ||
        (kind === "CertificateSigningRequest" && metadata.name.startsWith("fleet-member-")) ||
        (kind === "CustomResourceDefinition" &&
          FLEET_GROUPS.test(metadata.name) &&
          !before.has(`CustomResourceDefinition.apiextensions.k8s.io /${metadata.name}`)),
    );
    await clusters.kubectl(cluster, ["delete", "clusterrole,clusterrolebinding", ASK, "--ignore-not-found"]);
    const definitions = ours.filter((it) => it.kind === "CustomResourceDefinition");
    for (const { metadata } of definitions) await this.#release(cluster, metadata.name);
    for (const kind of ["Namespace", "CustomResourceDefinition", "CertificateSigningRequest"]) {
      const names = ours.filter((it) => it.kind === kind).map((it) => it.metadata.name);
      if (names.length > 0)
        await clusters.kubectl(cluster, [
          "delete",
          kind.toLowerCase(),
          ...names,
          "--ignore-not-found",
          "--timeout=240s",
        ]);
    }
  }

  /** Takes the finalizers off the objects of a kind: the programs that would do it are gone. */
  async #release(cluster: string, kind: string): Promise<void> {
    const found = await this.clusters.find<{ items: readonly AnyObject[] }>(cluster, [kind, "-A"]);
    for (const { metadata } of found?.items ?? []) {
      if ((metadata.finalizers ?? []).length === 0) continue;
      const where = metadata.namespace === undefined ? [] : ["-n", metadata.namespace];
      const patch = ["--type=merge", "-p", '{"metadata":{"finalizers":null}}'];
      await this.clusters.kubectl(cluster, [...where, "patch", kind, metadata.name, ...patch]);
    }
  }
}

/** Does one thing after the other, whatever fails. */
class Steps {
  readonly #errors: Error[] = [];

  async try(what: string, run: () => Promise<unknown>): Promise<void> {
    try {
      await run();
    } catch (error) {
      this.#errors.push(new Error(`cannot ${what}: ${messageOf(error)}`, { cause: error }));
    }
  }

  end(): void {
    if (this.#errors.length > 0)
      throw new AggregateError(this.#errors, this.#errors.map((it) => it.message).join("\n"));
  }
}

const NAMESPACES: readonly string[] = [NAMESPACE, ...PLACED_NAMESPACES];
/** The hub's, of what members can import. */
const VIEW = /^fleet-view-/;
/** What \`join\` gives members on the hub. */
const ASK = "fairlead-certificates";

const FLEET_GROUPS =
  /\.(networking\.fleet\.azure\.com|(cluster|placement)\.kubernetes-fleet\.io|multicluster\.x-k8s\.io|fairlead\.dev|fleetboard\.io)$/;

/** Waits until the importer offers so many endpoints of a service. */
export async function untilOffered(fleet: Fleet, name: string, count: number): Promise<void> {
  await until(
    `${count} endpoints of ${name} in ${fleet.importer}`,
    () => fleet.offered(name),
    (it) => it === count,
  );
}
