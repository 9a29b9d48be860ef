/** Objects as people write them, for the tests of a lab. */

import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

type Manifest = Readonly<Record<string, unknown>>;

interface Named {
  readonly namespace: string;
  readonly name: string;
}

export function namespace(name: string): Manifest {
  return { apiVersion: "v1", kind: "Namespace", metadata: { name } };
}

/** The echo server; its Service is made by `service`. */
export function echoDeployment({ namespace: at, name }: Named, replicas: number): Manifest {
  const fieldRef = (fieldPath: string) => ({ valueFrom: { fieldRef: { fieldPath } } });
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { namespace: at, name },
    spec: {
      replicas,
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { app: name } },
        spec: {
          containers: [
            {
              name: "echo",
              image: "fairlead.dev/echo",
              ports: [{ name: "http", containerPort: 8080 }],
              env: [
                { name: "POD_NAME", ...fieldRef("metadata.name") },
                { name: "POD_NAMESPACE", ...fieldRef("metadata.namespace") },
              ],
              readinessProbe: { httpGet: { path: "/readyz", port: "http" }, periodSeconds: 1 },
            },
          ],
        },
      },
    },
  };
}

/**
 * With pods that serve until all proxies have learned that they terminate, as the guide asks of servers: three seconds more than the two
 * of the echo server, in which a busy machine may do nothing else.
 */
export function graceful(deployment: Manifest): Manifest {
  const spec = deployment["spec"] as { template: { spec: { containers: object[] } } };
  const lifecycle = { preStop: { sleep: { seconds: 3 } } };
  const containers = spec.template.spec.containers.map((it) => ({ lifecycle, ...it }));
  const pod = { ...spec.template.spec, containers, terminationGracePeriodSeconds: 6 };
  return { ...deployment, spec: { ...spec, template: { ...spec.template, spec: pod } } };
}

/** Ports by name; all lead to the echo server's. */
export function service(
  { namespace: at, name }: Named,
  ports: Readonly<Record<string, number>> = { http: 80 },
  more: Manifest = {},
): Manifest {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace: at, name },
    spec: {
      selector: { app: name },
      ipFamilyPolicy: "PreferDualStack",
      ports: Object.entries(ports).map(([portName, port]) => ({ name: portName, port, targetPort: "http" })),
      ...more,
    },
  };
}

/** A pod that runs a shell script; without one it waits to be asked. */
export function shellPod({ namespace: at, name }: Named, script?: string): Manifest {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: at, name, labels: { app: name } },
    spec: {
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 0,
      containers: [
        {
          name: "shell",
          image: "nicolaka/netshoot",
          command: ["sh", "-c", script ?? "while :; do sleep 3600; done"],
        },
      ],
    },
  };
}

/** The same in a pod that has `node`, which the image of people's own shells does not. */
export function nodePod(named: Named, script?: string): Manifest {
  const pod = shellPod(named, script) as { spec: { containers: object[] } };
  const containers = pod.spec.containers.map((it) => ({ ...it, image: "fairlead.dev/fairlead" }));
  return { ...pod, spec: { ...pod.spec, containers } };
}

/**
 * A command that runs a program of this checkout in a `nodePod`, which does not see the checkout: the command has the text.
 *
 * @param module - URL of the program.
 */
export function programScript(module: URL, ...args: readonly string[]): string {
  const options = { bundle: true, format: "esm", minify: true, platform: "node", write: false } as const;
  const { outputFiles } = buildSync({ ...options, entryPoints: [fileURLToPath(module)] });
  const words = [outputFiles[0]?.text ?? "", "program", ...args];
  const quoted = words.map((it) => `'${it.replaceAll("'", String.raw`'\''`)}'`);
  return `exec node --input-type=module -e ${quoted.join(" ")}`;
}

/** For a `nodePod`: flows to a URL while it runs, from given ports, from ports that the kernel chooses, or from both alternately. */
export function flowScript(url: string, ports: "own" | "kernel" | "both"): string {
  return programScript(new URL("flow-client.ts", import.meta.url), url, ports);
}

export function fleetExport({ namespace: at, name }: Named): Manifest {
  const apiVersion = "networking.fleet.azure.com/v1beta1";
  return { apiVersion, kind: "ServiceExport", metadata: { namespace: at, name } };
}

export function mcsExport({ namespace: at, name }: Named): Manifest {
  const apiVersion = "multicluster.x-k8s.io/v1beta1";
  return { apiVersion, kind: "ServiceExport", metadata: { namespace: at, name } };
}

export function multiClusterService({ namespace: at, name }: Named): Manifest {
  const apiVersion = "networking.fleet.azure.com/v1alpha1";
  const metadata = { namespace: at, name };
  return { apiVersion, kind: "MultiClusterService", metadata, spec: { serviceImport: { name } } };
}

/** The other clusters' names of these kinds, as kubectl wants them where two groups share a word. */
export const KINDS = {
  fleetExport: "serviceexports.networking.fleet.azure.com",
  mcsExport: "serviceexports.multicluster.x-k8s.io",
  mcsImport: "serviceimports.multicluster.x-k8s.io",
} as const;
