import { mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  CONFIG_MAPS,
  type Container,
  EVENTS,
  type Pod,
  PODS,
  SERVICE_ACCOUNTS,
} from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { type ApiServer, startApiServer } from "@fairlead/apiserver/server.ts";
import { abortable } from "@fairlead/base/abortable.ts";
import { defined } from "@fairlead/base/defined.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { exec, start } from "@fairlead/base/exec.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import { createNetns, deleteNetns, inNetns, listNetns } from "@fairlead/os/netns/netns.ts";
import { ensureClusterPki } from "@fairlead/base/pki/cluster.ts";
import { issueServerCertificate } from "@fairlead/base/pki/issue.ts";

const NODE = "node-under-test";
const PROGRAM = fileURLToPath(new URL("../../scripts/launch.mjs", import.meta.url));
const POD_CIDRS = "10.97.0.0/24,fd00:97::/112";
/** Longest that anything here may take on a busy machine. Unit: milliseconds. */
const PATIENCE_MS = 30_000;

/** A cluster with an API server in this process, and one node in a network namespace: real processes and packets. */
export class NodeWorld implements AsyncDisposable {
  readonly folder: string;
  readonly dataDir: string;
  readonly netns: string;
  readonly client: KubeClient;
  readonly pods: Informer<Pod>;
  readonly api: ApiServer;
  readonly #device: string;
  readonly #nodeIP: string;
  readonly #stop = new AbortController();
  #node: ReturnType<typeof start> | undefined;

  private constructor(parts: {
    folder: string;
    device: string;
    nodeIP: string;
    api: ApiServer;
    client: KubeClient;
  }) {
    this.folder = parts.folder;
    this.dataDir = join(parts.folder, "node");
    this.netns = join(parts.folder, "netns");
    this.api = parts.api;
    this.client = parts.client;
    this.#device = parts.device;
    this.#nodeIP = parts.nodeIP;
    this.pods = createInformer(parts.client, PODS, {}, systemDeps(silentLogger));
  }

  static async create(): Promise<NodeWorld> {
    const folder = mkdtempSync(join(tmpdir(), "fairlead-node-"));
    const device = `fl${process.pid}`;
    // The range for benchmarks (RFC 2544), which is not routed.
    const prefix = `198.18.${process.pid % 250}`;
    const hostIP = `${prefix}.1`;
    const nodeIP = `${prefix}.2`;
    const netns = join(folder, "netns");
    const signal = AbortSignal.timeout(PATIENCE_MS);
    await createNetns(netns, signal);
    await batch(`link add name ${device} type veth peer name uplink netns ${netns}
address add ${hostIP}/30 dev ${device}
link set dev ${device} up`);
    const inside = inNetns(netns, "ip", ["-batch", "-"]);
    await exec(inside.command, inside.args, {
      input: `link set dev uplink up\naddress add ${nodeIP}/30 dev uplink\naddress add fd00:198::2/64 dev uplink nodad\nroute add default via ${hostIP}\n`,
    });
    const api = await startApiServer({ dataDir: join(folder, "api"), bindAddress: hostIP, journal: "none" });
    const client = connect(await loadKubeconfig(api.kubeconfig));
    const world = new NodeWorld({ folder, device, nodeIP, api, client });
    await world.#prepare();
    return world;
  }

  async #prepare(): Promise<void> {
    const pki = await ensureClusterPki(join(this.folder, "api", "pki"));
    const serving = await issueServerCertificate(pki.ca, {
      commonName: `system:node:${NODE}`,
      names: [NODE],
      ips: [this.#nodeIP],
    });
    writeFileSync(join(this.folder, "serving.crt"), serving.cert);
    writeFileSync(join(this.folder, "serving.key"), serving.key);
    writeFileSync(join(this.folder, "ca.crt"), pki.ca.cert);
    const metadata = { namespace: "default" };
    await this.#ensure(this.client.create(SERVICE_ACCOUNTS, { metadata: { ...metadata, name: "default" } }));
    await this.#ensure(
      this.client.create(CONFIG_MAPS, {
        metadata: { ...metadata, name: "kube-root-ca.crt" },
        data: { "ca.crt": pki.ca.cert },
      }),
    );
    this.pods.start(this.#stop.signal);
    await this.pods.synced(this.#stop.signal);
  }

  /** Other parts of the cluster may have made it already. */
  async #ensure(created: Promise<unknown>): Promise<void> {
    try {
      await created;
    } catch (error) {
      if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
    }
  }

  get nodeIP(): string {
    return this.#nodeIP;
  }

  /**
   * Starts the node program; resolves when it serves.
   *
   * @param entry - Of the bundle from which its pods run programs of Fairlead. Default: its own.
   */
  async startNode(entry?: string): Promise<void> {
    mkdirSync(this.dataDir, { recursive: true });
    const flags = {
      kubeconfig: this.api.kubeconfig,
      "node-name": NODE,
      "data-dir": this.dataDir,
      "node-ip": `${this.#nodeIP},fd00:198::2`,
      "pod-cidr": POD_CIDRS,
      "cluster-dns": "10.96.0.10",
      "client-ca": join(this.folder, "ca.crt"),
      "serving-cert": join(this.folder, "serving.crt"),
      "serving-key": join(this.folder, "serving.key"),
      "ready-fd": "3",
    };
    const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
    const line = inNetns(this.netns, process.execPath, [PROGRAM, "lab-node", ...args]);
    const log = openSync(join(this.folder, "node.log"), "a");
    const node = start(line.command, line.args, {
      env: {
        PATH: process.env["PATH"] ?? "",
        FAIRLEAD_LAB: this.folder,
        ...defined({ FAIRLEAD_ENTRY: entry }),
      },
      stdio: ["ignore", log, log, "pipe"],
    });
    this.#node = node;
    const ready = new Promise<void>((resolve, reject) => {
      node.stdio[3]?.once("data", () => resolve());
      node.once("exit", (code) => reject(new Error(`the node ended with ${code}: ${this.log()}`)));
    });
    await abortable(ready, AbortSignal.timeout(PATIENCE_MS));
  }

  /** Ends the node program as a crash would, and resolves when it is gone. */
  async killNode(): Promise<void> {
    const node = this.#node;
    if (node === undefined || node.exitCode !== null || node.signalCode !== null) return;
    const ended = new Promise<void>((resolve) => node.once("exit", () => resolve()));
    node.kill("SIGKILL");
    await ended;
  }

  log(): string {
    return readFileSync(join(this.folder, "node.log"), "utf8");
  }

  /** A pod bound to the node. */
  async createPod(
    name: string,
    containers: readonly Container[],
    spec: Partial<Pod["spec"]> = {},
  ): Promise<Pod> {
    return this.client.create(PODS, {
      metadata: { name, namespace: "default", labels: { app: name } },
      spec: { nodeName: NODE, terminationGracePeriodSeconds: 1, ...spec, containers: [...containers] },
    });
  }

  pod(name: string): Pod | undefined {
    return this.pods.store.get(objectKey("default", name));
  }

  /** Resolves with the first state of the pod that `isWanted`, also the present one. */
  async until(name: string, isWanted: (pod: Pod | undefined) => boolean): Promise<Pod | undefined> {
    const found = Promise.withResolvers<Pod | undefined>();
    const look = (): void => {
      const pod = this.pod(name);
      if (isWanted(pod)) found.resolve(pod);
    };
    using _subscription = this.pods.subscribe(look);
    look();
    try {
      return await abortable(found.promise, AbortSignal.timeout(PATIENCE_MS));
    } catch (cause) {
      const seen = JSON.stringify(this.pod(name)?.status, undefined, 1);
      throw new Error(`pod ${name} did not come to the wanted state; it is ${seen}\n${this.log()}`, {
        cause,
      });
    }
  }

  async untilReady(name: string): Promise<Pod> {
    const pod = await this.until(name, (it) => isReady(it));
    if (pod === undefined) throw new Error(`there is no pod ${name}`);
    return pod;
  }

  /** Events about a pod, as "REASON: MESSAGE". */
  async events(name: string): Promise<readonly string[]> {
    const { items } = await this.client.list(EVENTS, { namespace: "default" });
    return items
      .filter((it) => it.involvedObject.name === name)
      .map((it) => `${it.reason ?? ""}: ${it.message ?? ""}`);
  }

  async deletePod(name: string, gracePeriodSeconds?: number): Promise<void> {
    const options = gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds };
    await this.client.delete(PODS, objectKey("default", name), options);
    await this.until(name, (it) => it === undefined);
  }

  /** What a program in the node's network namespace prints. */
  async run(command: string, ...args: readonly string[]): Promise<string> {
    const line = inNetns(this.netns, command, args);
    return (await exec(line.command, line.args)).stdout;
  }

  /** Processes whose command line names the node's folder, but for the node program itself. */
  processes(): readonly { readonly pid: number; readonly line: string }[] {
    return readdirSync("/proc").flatMap((entry) => {
      const pid = Number(entry);
      if (!Number.isInteger(pid) || pid === this.#node?.pid) return [];
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, "utf8");
        return line.includes(`${this.dataDir}/pods/`) ? [{ pid, line: line.replaceAll("\0", " ") }] : [];
      } catch {
        return [];
      }
    });
  }

  /** Folder of a container's run on the node. */
  runFolder(pod: Pod, container: string, attempt = 0): string {
    return join(this.dataDir, "pods", pod.metadata.uid ?? "", "containers", container, String(attempt));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const names = [...this.pods.store.list()].map((it) => it.metadata.name);
    await Promise.all(names.map((name) => this.deletePod(name).catch(() => {})));
    await this.killNode();
    for (const { pid } of this.processes()) process.kill(pid, "SIGKILL");
    this.#stop.abort();
    await this.pods[Symbol.asyncDispose]();
    await this.client[Symbol.asyncDispose]();
    await this.api.close();
    await exec("ip", ["link", "delete", "dev", this.#device], { allowFailure: true });
    // What a failed test left behind.
    for (const path of await listNetns(this.folder))
      await deleteNetns(path, AbortSignal.timeout(PATIENCE_MS));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export function isReady(pod: Pod | undefined): boolean {
  return pod?.status?.conditions?.find((it) => it.type === "Ready")?.status === "True";
}

/** The echo server with a readiness probe. */
export const ECHO: Container = {
  name: "echo",
  image: "fairlead.dev/echo",
  env: [{ name: "ECHO_DRAIN_MS", value: "0" }],
  readinessProbe: { httpGet: { path: "/readyz", port: 8080 }, periodSeconds: 1 },
};

/** A shell script as a container. */
export function script(text: string, name = "main"): Container {
  return { name, image: "busybox", command: ["/bin/sh", "-c", text] };
}

/** Waits for SIGTERM. */
export const IDLE = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done";

async function batch(input: string): Promise<void> {
  await exec("ip", ["-batch", "-"], { input: `${input}\n` });
}
