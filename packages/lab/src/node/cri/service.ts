import { createHash } from "node:crypto";
import { createServer, type Http2Server } from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { VERSION } from "@fairlead/base/version.ts";
import { NAMESPACE_OF_NODE, RuntimeService, SANDBOX_STATE } from "@fairlead/os/cri/service.ts";
import type { RunningPod } from "./server.ts";

/** Answers the calls of the container runtime interface that find the network namespaces of `pods`. */
export function serveCri(pods: () => Iterable<RunningPod>): Http2Server {
  const all = (): readonly RunningPod[] => [...pods()];
  return createServer(
    connectNodeAdapter({
      connect: false,
      grpcWeb: false,
      routes: (router) =>
        router.service(RuntimeService, {
          version: () => ({
            version: "0.1.0",
            runtimeName: "fairlead-lab",
            runtimeVersion: VERSION,
            runtimeApiVersion: "v1",
          }),
          listPodSandbox: ({ filter }) => ({
            items: all()
              .filter((pod) => matches(pod, filter))
              .map((pod) => ({ id: sandboxId(pod), metadata: metadataOf(pod), state: SANDBOX_STATE.ready })),
          }),
          podSandboxStatus: ({ podSandboxId, verbose }) => {
            const pod = all().find((it) => sandboxId(it) === podSandboxId);
            if (pod === undefined)
              throw new ConnectError(`sandbox ${JSON.stringify(podSandboxId)} not found`, Code.NotFound);
            return { status: statusOf(pod), info: verbose ? { info: infoOf(pod) } : {} };
          },
        }),
    }),
  );
}

interface Filter {
  readonly id: string;
  readonly state: { readonly state: number } | undefined;
}

function matches(pod: RunningPod, filter: Filter | undefined): boolean {
  if (filter === undefined) return true;
  const isState = filter.state === undefined || filter.state.state === SANDBOX_STATE.ready;
  return isState && (filter.id === "" || filter.id === sandboxId(pod));
}

/** A pod of the lab has one sandbox, whose id has the form of containerd's. */
function sandboxId({ uid }: RunningPod): string {
  return createHash("sha256").update(`sandbox ${uid}`).digest("hex");
}

function metadataOf({ name, uid, namespace }: RunningPod) {
  return { name, uid, namespace, attempt: 0 };
}

function statusOf(pod: RunningPod) {
  const network = pod.netns === undefined ? NAMESPACE_OF_NODE : 0;
  return {
    id: sandboxId(pod),
    metadata: metadataOf(pod),
    state: SANDBOX_STATE.ready,
    linux: { namespaces: { options: { network } } },
  };
}

/** As containerd's and CRI-O's, cut to what leads to the network namespace. */
function infoOf({ netns }: RunningPod): string {
  const namespaces = netns === undefined ? [] : [{ type: "network", path: netns }];
  return JSON.stringify({ runtimeSpec: { linux: { namespaces } } });
}
