/** Which programs make up a lab, where each runs and with which flags: pure. */

import { join } from "node:path";
import {
  API_PORT,
  type BootRules,
  type DualAddress,
  type ExtraProgram,
  type LabCluster,
  type LabNode,
  type LabSpec,
  type LabTopology,
  used,
} from "./topology.ts";
import { type LabLink, linksOf } from "#link/plan.ts";
import type { LabLayout } from "./layout.ts";
import { nodeNetns, siteNetns } from "./places.ts";

export interface LabProgram {
  /** "hub/apiserver", "member-1/node-2": also the name of its log. */
  readonly name: string;
  readonly cluster: string;
  /** The node it makes up, for node programs. */
  readonly node: string | undefined;
  /** Network namespace in which it runs; undefined: that of the machine. */
  readonly netns: string | undefined;
  readonly args: readonly string[];
  /** Made before it starts. */
  readonly folder?: string;
  /** Wires are part of the network; API servers start before the rest, which needs them. */
  readonly stage: "wire" | "apiserver" | "rest";
}

export function apiUrl(cluster: Pick<LabCluster, "api">): string {
  return `https://${cluster.api.v4}:${API_PORT}`;
}

/** File names inside a cluster's folder. */
export const KUBECONFIG = {
  admin: "admin.kubeconfig",
  hub: "hub.kubeconfig",
  member: "member.kubeconfig",
  fleetDns: "fleet-dns.kubeconfig",
  controllers: "controllers.kubeconfig",
  dns: "dns.kubeconfig",
} as const;

/** File name inside a cluster's folder. */
export function extraKubeconfig(extra: Pick<ExtraProgram, "command">): string {
  return `${extra.command}.kubeconfig`;
}

/** The programs that the owner of the lab added to this cluster. */
export function extrasOf({ extras }: Pick<LabSpec, "extras">, cluster: LabCluster): readonly ExtraProgram[] {
  return extras.filter((it) => (cluster.index === 0 ? it.on !== "nodes" : it.on === "nodes"));
}

export function nodeKubeconfig(node: Pick<LabNode, "name">): string {
  return `${node.name}.kubeconfig`;
}

/** A lab runs one copy of each manager: after a crash the next one need not wait for the lease of the last. */
const ALONE = { "no-leader-elect": true } as const;

/** Where the hub's API server asks the hub, which runs in the same network namespace. */
const WEBHOOK = "127.0.0.1:9443";

/** All programs of the lab, in the order in which they start. */
export function planPrograms(topology: LabTopology, layout: LabLayout): readonly LabProgram[] {
  const programs = [
    ...topology.clusters.flatMap((cluster) => clusterPrograms(topology, layout, cluster)),
    ...wires(topology, layout),
  ];
  const stages = ["wire", "apiserver", "rest"] as const;
  return stages.flatMap((stage) => programs.filter((it) => it.stage === stage));
}

function clusterPrograms(
  topology: LabTopology,
  layout: LabLayout,
  cluster: LabCluster,
): readonly LabProgram[] {
  const dir = layout.cluster(cluster.name);
  const leaseSeconds = String(topology.spec.leaseSeconds);
  const text = (addresses: DualAddress): string => used(topology.spec, addresses).join(",");
  const site = (program: string, options: Flags): LabProgram => ({
    name: `${cluster.name}/${program}`,
    cluster: cluster.name,
    node: undefined,
    netns: siteNetns(cluster),
    stage: program === "apiserver" ? "apiserver" : "rest",
    args: [program, ...flags(options)],
  });
  const apiserver = site("apiserver", {
    data: join(dir, "apiserver"),
    "bind-address": cluster.api.v4,
    port: String(API_PORT),
    "advertise-address": cluster.api.v4,
    "external-san": used(topology.spec, cluster.api).slice(1),
    "service-cluster-ip-range": text(topology.serviceCidr),
    "kubelet-certificate-authority": join(dir, "apiserver", "pki", "ca.crt"),
    "kubernetes-version": cluster.release,
  });
  if (cluster.runs === "hub")
    return [
      // Nothing makes ServiceAccounts here, without which the plugin would refuse a pod before the policy says why.
      {
        ...apiserver,
        args: [...apiserver.args, ...flags({ "disable-admission-plugins": "ServiceAccount" })],
      },
      site("hub", {
        kubeconfig: join(dir, KUBECONFIG.hub),
        "member-lease-seconds": leaseSeconds,
        webhook: WEBHOOK,
        "webhook-url": `https://${WEBHOOK}`,
        ...ALONE,
      }),
      ...extraPrograms(topology, layout, cluster),
    ];
  const controllers = site("lab-controllers", {
    kubeconfig: join(dir, KUBECONFIG.controllers),
    "load-balancer-cidr": text(cluster.loadBalancerCidr),
    "node-lease-seconds": leaseSeconds,
  });
  const nodes = cluster.nodes.map((node) => nodeProgram(topology, layout, { cluster, node }));
  // Bare nodes, too, refuse pods with the privileges that such programs need.
  const extras = extraPrograms(topology, layout, cluster);
  if (cluster.runs === "nothing") return [apiserver, controllers, ...nodes, ...extras];
  const fleetDns = `${cluster.fleetDns.v4}:53`;
  return [
    apiserver,
    controllers,
    site("member", {
      kubeconfig: join(dir, KUBECONFIG.member),
      ...(topology.spec.serviceImports === "manual" ? { "service-imports": "manual" } : {}),
      ...(bootRulesOf(topology.spec, cluster, dir).length > 0 ? { "startup-taint": true } : {}),
      ...ALONE,
    }),
    site("dns", { kubeconfig: join(dir, KUBECONFIG.fleetDns), listen: fleetDns }),
    site("lab-dns", {
      kubeconfig: join(dir, KUBECONFIG.dns),
      listen: used(topology.spec, cluster.clusterDns).map((it) =>
        it.includes(":") ? `[${it}]:53` : `${it}:53`,
      ),
      "cluster-domain": "cluster.local",
      forward: ["clusterset.local", "fleetboard.local"].map((zone) => `${zone}=${fleetDns}`),
    }),
    ...nodes,
    ...extras,
  ];
}

/** Of the programs of a node, whose folder this is. */
export function bootRulesOf(
  spec: Pick<LabSpec, "extras">,
  cluster: LabCluster,
  folder: string,
): readonly BootRules[] {
  return extrasOf(spec, cluster).flatMap(({ on, command, boot }) => {
    const filled = (text: string): string => text.replaceAll("{state}", join(folder, command));
    if (on !== "nodes" || boot === undefined) return [];
    return [{ rules: filled(boot.rules), mark: filled(boot.mark) }];
  });
}

/** What its owner added to a cluster. */
function extraPrograms(topology: LabTopology, layout: LabLayout, cluster: LabCluster): readonly LabProgram[] {
  const dir = layout.cluster(cluster.name);
  const { api, uplink = api } = cluster;
  return extrasOf(topology.spec, cluster).flatMap((extra): readonly LabProgram[] => {
    const { command } = extra;
    const common = { cluster: cluster.name, stage: "rest" } as const;
    const everywhere = { kubeconfig: join(dir, extraKubeconfig(extra)), cluster: cluster.name };
    const filled = (values: Readonly<Record<string, string>>): readonly string[] => [
      command,
      ...extra.args.map((it) => it.replaceAll(/\{(\w+)\}/g, (word, name: string) => values[name] ?? word)),
    ];
    if (extra.on === "machine") {
      const args = filled({ ...everywhere, lab: layout.root });
      return [{ ...common, name: `machine/${command}`, node: undefined, netns: undefined, args }];
    }
    if (extra.on === "hub") {
      const state = join(dir, command);
      const args = filled({ ...everywhere, state, v4: uplink.v4, v6: uplink.v6 });
      const netns = siteNetns(cluster);
      return [{ ...common, name: `${cluster.name}/${command}`, node: undefined, netns, args, folder: state }];
    }
    return cluster.nodes.map((node) => {
      const folder = layout.node(node.name);
      const state = join(folder, command);
      const netns = nodeNetns(node);
      const values = { node: node.name, netns: layout.netnsOf(netns), state, cri: join(folder, "cri.sock") };
      return {
        ...common,
        name: `${nodeProgramName(cluster, node)}/${command}`,
        node: node.name,
        netns,
        args: filled({ ...everywhere, ...values }),
        folder: state,
      };
    });
  });
}

function nodeProgramName(cluster: LabCluster, node: LabNode): string {
  return `${cluster.name}/${node.name.slice(cluster.name.length + 1)}`;
}

function nodeProgram(
  topology: LabTopology,
  layout: LabLayout,
  { cluster, node }: { readonly cluster: LabCluster; readonly node: LabNode },
): LabProgram {
  const dir = layout.cluster(cluster.name);
  const text = (addresses: DualAddress): string => used(topology.spec, addresses).join(",");
  return {
    name: nodeProgramName(cluster, node),
    cluster: cluster.name,
    node: node.name,
    netns: nodeNetns(node),
    stage: "rest",
    args: [
      "lab-node",
      ...flags({
        kubeconfig: join(dir, nodeKubeconfig(node)),
        "node-name": node.name,
        "data-dir": layout.node(node.name),
        "node-ip": text(node.address),
        "pod-cidr": text(node.podCidr),
        "cluster-cidr": podCidrsOf(cluster)
          .map((it) => text(it))
          .join(","),
        "kubernetes-version": node.release,
        cluster: cluster.name,
        "cluster-dns": text(cluster.dnsService),
        "cluster-domain": "cluster.local",
        "client-ca": join(dir, "apiserver", "pki", "ca.crt"),
        "serving-cert": join(dir, `${node.name}-serving.crt`),
        "serving-key": join(dir, `${node.name}-serving.key`),
        zone: node.zone,
        "lease-seconds": String(topology.spec.leaseSeconds),
      }),
    ],
  };
}

/** Of all nodes that the cluster may have, in one order. */
function podCidrsOf({ nodes, spare }: LabCluster): readonly DualAddress[] {
  const all = [...nodes, ...(spare === undefined ? [] : [spare])];
  return all.toSorted((a, b) => (a.name < b.name ? -1 : 1)).map((it) => it.podCidr);
}

export function wireName({ name, cluster }: LabLink): string {
  return name === cluster ? `${cluster}/wire` : `${cluster}/${name.slice(cluster.length + 1)}/wire`;
}

/** Wires of the links that are delayed by one. */
function wires(topology: LabTopology, layout: LabLayout): readonly LabProgram[] {
  return linksOf(topology)
    .filter(({ name }) => topology.conditions?.[name]?.delayBy === "wire")
    .map((link) => ({
      name: wireName(link),
      cluster: link.cluster,
      node: undefined,
      netns: link.ends[0].netns,
      stage: "wire",
      args: [
        "lab-wire",
        ...flags({
          end: link.ends.map(({ netns, device }) => `${layout.netnsOf(netns)}:${device}`),
          "delay-file": layout.delayFile(link.name),
        }),
      ],
    }));
}

type Flags = Readonly<Record<string, string | readonly string[] | true>>;

/** `--name value`, once for each value of a list; `true` makes a flag without one. */
function flags(options: Flags): readonly string[] {
  return Object.entries(options).flatMap(([name, values]) =>
    values === true ? [`--${name}`] : [values].flat().flatMap((value) => [`--${name}`, value]),
  );
}
