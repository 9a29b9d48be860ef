import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { VERSION_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { byNaturalText } from "@fairlead/base/text.ts";
import { type Lease, LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { HUB_LEASE } from "./hub-program.ts";
import { renderData, type ResultOutput } from "../output.ts";
import { renderTable } from "../table.ts";

/** Which versions of the programs a fleet runs, by the annotations of their Leases. */

/** The difference of a version to that of the hub. */
export type Skew = "none" | "older" | "newer" | "unknown";

export interface Versions {
  readonly client: { readonly version: string; readonly skew?: Skew };
  /** Undefined if no hub was asked. */
  readonly hub?: { readonly version?: string };
  readonly members?: readonly { readonly name: string; readonly version?: string; readonly skew: Skew }[];
}

interface Reported {
  readonly hub: Lease | undefined;
  readonly members: readonly MemberCluster[];
  readonly leases: readonly Lease[];
}

export async function readVersions(hub: KubeClient, client: string, signal: AbortSignal): Promise<Versions> {
  const [lease, members, leases] = await Promise.all([
    hub.find(LEASES, HUB_LEASE, { signal }),
    hub.list(MEMBER_CLUSTERS, { signal }),
    hub.list(LEASES, { signal }),
  ]);
  return compareVersions(client, { hub: lease, members: members.items, leases: leases.items });
}

export function compareVersions(client: string, { hub, members, leases }: Reported): Versions {
  const hubVersion = versionOn(hub);
  const byKey = new Map(leases.map((it) => [`${it.metadata.namespace}/${it.metadata.name}`, it]));
  return {
    client: { version: client, skew: skewOf(client, hubVersion) },
    hub: named(hubVersion),
    members: members
      .map(({ metadata: { name } }) => {
        const version = versionOn(byKey.get(`${mailboxOf(name)}/${name}`));
        return { name, ...named(version), skew: skewOf(version, hubVersion) };
      })
      .toSorted((a, b) => byNaturalText(a.name, b.name)),
  };
}

const named = (version: string | undefined): { readonly version?: string } =>
  version === undefined ? {} : { version };

/** Members write their annotations themselves: only what has the form of a version is shown. */
const VERSION_FORM = /^(\d{1,5})\.(\d{1,5})\.(\d{1,5})(?:[-+][\w.+-]{1,50})?$/;

function versionOn(lease: Lease | undefined): string | undefined {
  const text = lease?.metadata.annotations?.[VERSION_ANNOTATION];
  return text !== undefined && VERSION_FORM.test(text) ? text : undefined;
}

function skewOf(version: string | undefined, hub: string | undefined): Skew {
  if (version === undefined || hub === undefined) return "unknown";
  const [own, other] = [version, hub].map((it) => (VERSION_FORM.exec(it) ?? []).slice(1, 4).map(Number));
  const difference = own?.map((it, at) => it - (other?.[at] ?? 0)).find((it) => it !== 0) ?? 0;
  if (difference === 0) return "none";
  return difference < 0 ? "older" : "newer";
}

export function renderVersions(versions: Versions, output: ResultOutput): string {
  if (output !== "text") return renderData(versions, output);
  const { client, hub, members = [] } = versions;
  if (hub === undefined) return `fairlead ${client.version}`;
  const rows = [
    { name: "client", ...client },
    { name: "hub", ...hub, skew: undefined },
    ...members.map((it) => ({ ...it, name: `member ${it.name}` })),
  ];
  return renderTable(
    [
      { head: "PROGRAM", cell: (it) => it.name },
      { head: "VERSION", cell: (it) => it.version ?? "unknown" },
      { head: "SKEW", cell: (it) => it.skew ?? "-" },
    ],
    rows,
  );
}
