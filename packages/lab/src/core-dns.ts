/** The DNS of a bare cluster: a program of the lab in the place of CoreDNS, in pods, installed as kubeadm installs CoreDNS. */

import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { CONFIG_MAPS, SERVICE_ACCOUNTS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { DNS_PORTS, DNS_RULES, dnsService } from "./cluster-objects.ts";

const NAMESPACE = "kube-system";
const NAME = "coredns";
const LABELS = { "k8s-app": "kube-dns" };
const COREFILE_FOLDER = "/etc/coredns";
const METRICS_PORT = 9153;

/** kubeadm's. A lab's DNS obeys the blocks of other zones and their `forward`. */
const COREFILE = `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :${METRICS_PORT}
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
`;

/** Installs what is missing. From then on all of it belongs to the cluster's people, who may have changed it. */
export async function applyCoreDns(
  client: KubeClient,
  addresses: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const local = { name: NAME, namespace: NAMESPACE };
  const role = { name: `system:${NAME}` };
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: role.name } as const;
  const subjects = [{ kind: "ServiceAccount", ...local }] as const;
  await Promise.all(
    [
      () => client.create(SERVICE_ACCOUNTS, { metadata: local }, { signal }),
      () => client.create(CLUSTER_ROLES, { metadata: role, rules: DNS_RULES }, { signal }),
      () =>
        client.create(
          CLUSTER_ROLE_BINDINGS,
          { metadata: role, roleRef, subjects: [...subjects] },
          { signal },
        ),
      () => client.create(CONFIG_MAPS, { metadata: local, data: { Corefile: COREFILE } }, { signal }),
      () => client.create(SERVICES, dnsService(addresses, LABELS), { signal }),
      () => client.create(DEPLOYMENTS, deployment(addresses), { signal }),
    ].map((create) => unlessThere(create)),
  );
}

async function unlessThere(create: () => Promise<unknown>): Promise<void> {
  try {
    await create();
  } catch (error) {
    if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
  }
}

/** @param addresses - Of the Service: their families are those that pods have. */
function deployment(addresses: readonly string[]) {
  const listen = addresses.map((it) => (it.includes(":") ? "[::]:53" : "0.0.0.0:53"));
  return {
    metadata: { name: NAME, namespace: NAMESPACE, labels: LABELS },
    spec: {
      replicas: 2,
      strategy: { type: "RollingUpdate" as const, rollingUpdate: { maxUnavailable: 1 } },
      selector: { matchLabels: LABELS },
      template: {
        metadata: { labels: LABELS },
        spec: {
          serviceAccountName: NAME,
          priorityClassName: "system-cluster-critical",
          dnsPolicy: "Default" as const,
          containers: [
            {
              name: NAME,
              image: "registry.k8s.io/coredns/coredns",
              args: [
                ...listen.flatMap((it) => ["--listen", it]),
                "--corefile",
                `${COREFILE_FOLDER}/Corefile`,
                "--metrics",
                `${listen[0]?.replace(/53$/, "") ?? ""}${METRICS_PORT}`,
              ],
              ports: [
                ...DNS_PORTS.map(({ name, protocol, port }) => ({ name, protocol, containerPort: port })),
                { name: "metrics", protocol: "TCP" as const, containerPort: METRICS_PORT },
              ],
              readinessProbe: { httpGet: { path: "/readyz", port: "metrics" }, periodSeconds: 1 },
              volumeMounts: [{ name: "config", mountPath: COREFILE_FOLDER, readOnly: true }],
            },
          ],
          volumes: [{ name: "config", configMap: { name: NAME } }],
        },
      },
    },
  };
}
