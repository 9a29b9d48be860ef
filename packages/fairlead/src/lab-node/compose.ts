import { accessSync, constants, existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { type Service, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import { ownEntry } from "@fairlead/base/program/self.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { availableImages, type Machine } from "@fairlead/lab/images/catalogue.ts";
import { SYSTEM_PATH } from "@fairlead/lab/node/container/runtime.ts";
import { CriServer } from "@fairlead/lab/node/cri/server.ts";
import { BY_NAMESPACE, Kubelet } from "@fairlead/lab/node/kubelet/kubelet.ts";
import { nodeLabels } from "@fairlead/lab/node/registration/node-object.ts";
import { readCapacity, readNodeInfo } from "@fairlead/lab/node/registration/machine-facts.ts";
import { Heartbeat, NodeRegistration } from "@fairlead/lab/node/registration/registration.ts";
import { KubeletServer } from "@fairlead/lab/node/server/server.ts";
import { ownFiles } from "./own-files.ts";
import { composeProxy } from "./proxy.ts";

export interface NodeFlags {
  readonly nodeName: string;
  readonly dataDir: string;
  readonly nodeIp: readonly string[];
  readonly podCidr: readonly string[];
  readonly clusterCidr?: readonly string[] | undefined;
  readonly clusterDns: readonly string[];
  readonly clusterDomain: string;
  readonly cluster?: string | undefined;
  readonly clientCa: string;
  readonly servingCert: string;
  readonly servingKey: string;
  readonly port: number;
  readonly zone?: string | undefined;
  readonly leaseSeconds: number;
  /** The minor whose kubelet this one stands in for. */
  readonly kubernetesVersion: string;
}

export interface NodeDeps {
  readonly client: KubeClient;
  readonly deps: RuntimeDeps;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** The parts of a node, in the order in which they start. */
export function composeNode(flags: NodeFlags, { client, deps, environment }: NodeDeps): readonly Component[] {
  const capacity = readCapacity();
  const machine = describeMachine(flags, environment);
  const lab = environment["FAIRLEAD_LAB"];
  const facts = {
    name: flags.nodeName,
    addresses: flags.nodeIp,
    podCidrs: flags.podCidr,
    capacity,
    info: readNodeInfo({ ...flags, version: `v${flags.kubernetesVersion}.0+fairlead` }),
    kubeletPort: flags.port,
    images: availableImages(machine),
    zone: flags.zone,
  };
  const services = createInformer<Service>(
    client,
    SERVICES,
    { indexes: { [BY_NAMESPACE]: (it) => [it.metadata.namespace ?? ""] } },
    deps,
  );
  const kubelet = new Kubelet({
    client,
    deps,
    nodeName: flags.nodeName,
    dataDir: flags.dataDir,
    nodeIPs: flags.nodeIp,
    podCidrs: flags.podCidr,
    dns: { servers: flags.clusterDns, domain: flags.clusterDomain, machine: readMachineResolver() },
    machine,
    capacity,
    labels: nodeLabels(facts),
    services,
    shimEnv: lab === undefined ? {} : { FAIRLEAD_LAB: lab },
  });
  const registration = new NodeRegistration(client, facts, deps);
  const heartbeat = new Heartbeat(client, { name: flags.nodeName, leaseSeconds: flags.leaseSeconds }, deps);
  const server = new KubeletServer({
    port: flags.port,
    cert: readFileSync(flags.servingCert, "utf8"),
    key: readFileSync(flags.servingKey, "utf8"),
    clientCa: readFileSync(flags.clientCa, "utf8"),
    pods: kubelet.access,
    clock: deps.clock,
    log: deps.log,
  });
  const cri = new CriServer({ socket: join(flags.dataDir, "cri.sock"), pods: () => kubelet.running });
  const clusterCidrs = flags.clusterCidr ?? flags.podCidr;
  const proxy = composeProxy(client, { name: flags.nodeName, clusterCidrs, services }, deps);
  // The node is ready for pods once their Services work.
  return [proxy, kubelet, cri, server, registration, heartbeat];
}

/** The programs that images may use: those of the machine, and the running executable. */
function describeMachine(flags: NodeFlags, environment: NodeDeps["environment"]): Machine {
  const started = ownEntry();
  const entry = started === undefined ? undefined : (environment["FAIRLEAD_ENTRY"] ?? started);
  const own = ownFiles(process.execPath, entry);
  return {
    has: (program) => SYSTEM_PATH.split(":").some((folder) => isExecutable(join(folder, program))),
    fairlead: own.command,
    fairleadFiles: own.files,
    hostname: hostname(),
    identity: {
      NODE_NAME: flags.nodeName,
      ...(flags.cluster === undefined ? {} : { CLUSTER_NAME: flags.cluster }),
    },
  };
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function readMachineResolver(): string {
  return existsSync("/etc/resolv.conf") ? readFileSync("/etc/resolv.conf", "utf8") : "";
}
