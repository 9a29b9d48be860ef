/** Certificates and kubeconfigs of a lab's programs, made before anything starts. */

import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { replaceFileSync } from "@fairlead/base/replace-file.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { ensureClusterPki } from "@fairlead/base/pki/cluster.ts";
import type { CertificatePair } from "@fairlead/base/pki/keys.ts";
import { renderKubeconfig } from "@fairlead/base/pki/kubeconfig.ts";
import type { LabLayout } from "./layout.ts";
import { apiUrl, extraKubeconfig, extrasOf, KUBECONFIG, nodeKubeconfig } from "./programs.ts";
import type { LabCluster, LabSpec, LabTopology } from "./topology.ts";

export const DNS_USER = "fairlead:lab-dns";

/** The users as which the fleet's programs call the API servers of a lab. */
export const PROGRAM_USERS = { hub: "fairlead:hub", member: "fairlead:member", dns: "fairlead:dns" } as const;

interface Identity {
  readonly file: string;
  readonly user: string;
  readonly groups: readonly string[];
}

/** The clients of a cluster's API server, each with its own rights (see cluster-objects.ts): only users are administrators. */
function identitiesOf(cluster: LabCluster, spec: Pick<LabSpec, "extras">): readonly Identity[] {
  const admin = { file: KUBECONFIG.admin, user: "admin", groups: ["system:masters"] };
  const extras = extrasOf(spec, cluster).map((it) => ({
    file: extraKubeconfig(it),
    user: it.user,
    groups: [],
  }));
  if (cluster.runs === "hub")
    return [admin, { file: KUBECONFIG.hub, user: PROGRAM_USERS.hub, groups: [] }, ...extras];
  return [
    admin,
    ...extras,
    ...(cluster.runs === "member" ? MEMBER_PROGRAMS : []),
    { file: KUBECONFIG.controllers, user: "system:kube-controller-manager", groups: [] },
    ...cluster.nodes.map((node) => ({
      file: nodeKubeconfig(node),
      user: `system:node:${node.name}`,
      groups: ["system:nodes"],
    })),
  ];
}

const MEMBER_PROGRAMS: readonly Identity[] = [
  { file: KUBECONFIG.member, user: PROGRAM_USERS.member, groups: [] },
  { file: KUBECONFIG.fleetDns, user: PROGRAM_USERS.dns, groups: [] },
  { file: KUBECONFIG.dns, user: DNS_USER, groups: [] },
];

/** Writes what is missing of a cluster's credentials and returns its administrator's kubeconfig. */
export async function ensureClusterCredentials(
  cluster: LabCluster,
  spec: Pick<LabSpec, "extras">,
  layout: LabLayout,
): Promise<string> {
  const dir = layout.cluster(cluster.name);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const pki = await ensureClusterPki(join(dir, "apiserver", "pki"), {
    serverSans: [cluster.api.v4, cluster.api.v6],
  });
  const context = { server: apiUrl(cluster), ca: pki.ca.cert, cluster: cluster.name, context: cluster.name };
  for (const { file, user, groups } of identitiesOf(cluster, spec)) {
    const path = join(dir, file);
    if (existsSync(path)) continue;
    const { issueClientCertificate } = await import("@fairlead/base/pki/issue.ts");
    const pair = await issueClientCertificate(pki.ca, { commonName: user, organizations: groups });
    replaceFileSync(path, renderKubeconfig({ ...context, user, ...pair }));
  }
  await ensureServingCertificates(cluster, dir, pki.ca);
  return join(dir, KUBECONFIG.admin);
}

/** What each node's kubelet shows to the API server. */
async function ensureServingCertificates(
  cluster: LabCluster,
  dir: string,
  ca: CertificatePair,
): Promise<void> {
  for (const node of cluster.nodes) {
    const path = join(dir, `${node.name}-serving.crt`);
    if (existsSync(path)) continue;
    const { issueServerCertificate } = await import("@fairlead/base/pki/issue.ts");
    const pair = await issueServerCertificate(ca, {
      commonName: `system:node:${node.name}`,
      organizations: ["system:nodes"],
      names: [node.name],
      ips: [node.address.v4, node.address.v6],
    });
    replaceFileSync(join(dir, `${node.name}-serving.key`), pair.key);
    replaceFileSync(path, pair.cert);
  }
}

/** One kubeconfig for people, with a context for each cluster; the first, the hub's, is the current one. */
export function writeFleetKubeconfig(topology: LabTopology, layout: LabLayout): void {
  interface Parts {
    readonly clusters: readonly unknown[];
    readonly users: readonly { readonly user: unknown }[];
    readonly contexts: readonly { readonly name: string; readonly context: object }[];
  }
  const parts = topology.clusters.map((cluster) => {
    const file = join(layout.cluster(cluster.name), KUBECONFIG.admin);
    return { user: `${cluster.name}-admin`, ...(readJson(file, topology.spec.name) as Parts) };
  });
  const merged = {
    apiVersion: "v1",
    kind: "Config",
    clusters: parts.flatMap((it) => it.clusters),
    users: parts.flatMap((part) => part.users.map((it) => ({ ...it, name: part.user }))),
    contexts: parts.flatMap((part) =>
      part.contexts.map((it) => ({ ...it, context: { ...it.context, user: part.user } })),
    ),
    "current-context": parts[0]?.contexts[0]?.name,
  };
  replaceFileSync(layout.kubeconfig, `${JSON.stringify(merged, null, 2)}\n`);
}

function readJson(file: string, lab: string): unknown {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (cause) {
    throw new FleetError(
      "LAB_INVALID",
      `cannot read ${file}: it was written by another version of Fairlead; recreate the lab, beginning with "fairlead lab down --name ${lab}"`,
      { cause },
    );
  }
}
