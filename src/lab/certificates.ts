/** Certificates and kubeconfigs of a lab's programs, made before anything starts. */

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { ensureClusterPki } from "#pki/cluster.ts";
import type { CertificatePair } from "#pki/keys.ts";
import { renderKubeconfig } from "#pki/kubeconfig.ts";
import type { LabLayout } from "./layout.ts";
import { apiUrl, KUBECONFIG, nodeKubeconfig } from "./programs.ts";
import type { LabCluster, LabTopology } from "./topology.ts";

interface Identity {
  readonly file: string;
  readonly user: string;
  readonly groups: readonly string[];
}

/** Who calls a cluster's API server. The DNS servers read with a role of their own (see cluster-objects.ts). */
function identitiesOf(cluster: LabCluster): readonly Identity[] {
  const admin = { file: KUBECONFIG.admin, user: "admin", groups: ["system:masters"] };
  if (cluster.isHub) return [admin];
  return [
    admin,
    { file: KUBECONFIG.controllers, user: "system:kube-controller-manager", groups: [] },
    { file: KUBECONFIG.dns, user: DNS_USER, groups: [] },
    ...cluster.nodes.map((node) => ({
      file: nodeKubeconfig(node),
      user: `system:node:${node.name}`,
      groups: ["system:nodes"],
    })),
  ];
}

export const DNS_USER = "fairlead:lab-dns";

/** Writes what is missing of a cluster's credentials and returns its administrator's kubeconfig. */
export async function ensureClusterCredentials(cluster: LabCluster, layout: LabLayout): Promise<string> {
  const dir = layout.cluster(cluster.name);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const pki = await ensureClusterPki(join(dir, "apiserver", "pki"), {
    serverSans: [cluster.api.v4, cluster.api.v6],
  });
  const context = { server: apiUrl(cluster), ca: pki.ca.cert, cluster: cluster.name, context: cluster.name };
  for (const { file, user, groups } of identitiesOf(cluster)) {
    const path = join(dir, file);
    if (existsSync(path)) continue;
    const { issueClientCertificate } = await import("#pki/issue.ts");
    const pair = await issueClientCertificate(pki.ca, { commonName: user, organizations: groups });
    writeFileSync(path, renderKubeconfig({ ...context, user, ...pair }), { mode: 0o600 });
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
    const { issueServerCertificate } = await import("#pki/issue.ts");
    const pair = await issueServerCertificate(ca, {
      commonName: `system:node:${node.name}`,
      organizations: ["system:nodes"],
      names: [node.name],
      ips: [node.address.v4, node.address.v6],
    });
    writeFileSync(join(dir, `${node.name}-serving.key`), pair.key, { mode: 0o600 });
    writeFileSync(path, pair.cert, { mode: 0o600 });
  }
}

/** One kubeconfig for people, with a context for each cluster; the current one is the hub. */
export function writeFleetKubeconfig(topology: LabTopology, layout: LabLayout): void {
  type Part = { clusters: unknown[]; users: { name: string }[]; contexts: { context: { user: string } }[] };
  const merged = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [] as unknown[],
    users: [] as unknown[],
    contexts: [] as unknown[],
  };
  for (const cluster of topology.clusters) {
    const part = parse(readFileSync(join(layout.cluster(cluster.name), KUBECONFIG.admin), "utf8")) as Part;
    const user = `${cluster.name}-admin`;
    merged.clusters.push(...part.clusters);
    merged.users.push(...part.users.map((it) => ({ ...it, name: user })));
    merged.contexts.push(...part.contexts.map((it) => ({ ...it, context: { ...it.context, user } })));
  }
  const text = stringify(
    { ...merged, "current-context": topology.clusters[0]?.name ?? "hub" },
    { version: "1.1" },
  );
  writeFileSync(layout.kubeconfig, text, { mode: 0o600 });
}
