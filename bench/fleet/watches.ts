/** The watches that an agent has open on the hub, each with a connection of its own, of which nothing is read but bytes. */

import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { Agent, request, type RequestOptions } from "node:https";
import { INTERNAL_MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { IDENTITY_DEMANDS, IDENTITY_SLICES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/identities.ts";
import { TRAFFIC_ROUTES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/traffic-route.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { CLUSTER_UPGRADES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { collectionPath, withQuery } from "@fairlead/kube/client/path.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";

const OF_MAILBOX = [
  INTERNAL_MEMBER_CLUSTERS,
  CLUSTER_UPGRADES,
  IDENTITY_DEMANDS,
  IDENTITY_SLICES,
  IMPORTED_SERVICES,
  NAMESPACE_REPORTS,
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  WORKS,
] as readonly Resource[];
const OF_VIEW = [IMPORTED_SERVICES, TRAFFIC_ROUTES, ENDPOINT_SLICE_IMPORTS] as readonly Resource[];

/** @param user - The member's, which an administrator impersonates: the server bounds the watches of each user. */
export async function openWatches(
  { server, ca, credentials }: ClusterConfig,
  { name, user }: { readonly name: string; readonly user: string },
  signal: AbortSignal,
): Promise<void> {
  const { certificate, key } = await credentials.current(signal);
  const paths = [
    ...OF_MAILBOX.map((it) => collectionPath(it, mailboxOf(name))),
    ...OF_VIEW.map((it) => collectionPath(it, VIEW_NAMESPACE)),
  ];
  for (const path of paths) {
    const asked = {
      agent: new Agent({ keepAlive: false }),
      headers: { "impersonate-user": user },
      ...(ca === undefined ? {} : { ca }),
      ...(certificate === undefined ? {} : { cert: certificate }),
      ...(key === undefined ? {} : { key }),
    };
    await open(`${server}${withQuery(path, { watch: true, timeoutSeconds: 3600 })}`, asked, signal);
  }
}

/** As agents do it opens the watch again when it ends. Resolves when the server has begun to answer. */
async function open(url: string, asked: RequestOptions, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const sent = request(url, asked);
    const stop = (): void => void sent.destroy();
    signal.addEventListener("abort", stop, { once: true });
    const again = (): void => signal.removeEventListener("abort", stop);
    sent.end();
    try {
      const [answer] = (await once(sent, "response", { signal })) as [IncomingMessage];
      if (answer.statusCode !== 200) throw new Error(`${url}: ${answer.statusCode}`);
      answer.resume();
      sent.on("error", () => {});
      answer.on("error", () => {});
      answer.once("close", () => {
        again();
        if (!signal.aborted) void open(url, asked, signal);
      });
      return;
    } catch (error) {
      again();
      if (!(error instanceof Error) || !("code" in error)) throw error;
    }
  }
}
