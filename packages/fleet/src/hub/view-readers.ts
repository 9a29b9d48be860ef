import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { NamespaceReport } from "#api/fairlead.dev/v1alpha1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { clusterOfMailbox } from "#api/networking.fleet.azure.com/names.ts";
import type { Change, Informer } from "@fairlead/kube/types.ts";
import { isClaimChanged } from "./memberships.ts";
import { isIsolated } from "./view.ts";

/** The views that some member reads or is to read, remembered until that may change: each slice asks. */
export type ReadViews = () => ReadonlySet<string>;

interface Parts {
  readonly reports: Informer<NamespaceReport>;
  readonly members: Informer<MemberCluster>;
  readonly profiles: Informer<ClusterMeshProfile>;
  readonly viewOf: (cluster: string) => string;
  /** Whether this hub names a view in the InternalMemberClusters of members. */
  readonly namesViews: boolean;
}

export function createReadViews(parts: Parts): ReadViews {
  const { reports, members, profiles } = parts;
  let known: ReadonlySet<string> | undefined;
  profiles.subscribe(() => (known = undefined));
  reports.subscribe((change) => {
    if (isReaderChanged(change)) known = undefined;
  });
  members.subscribe((change) => {
    if (isClaimChanged(change) || isIsolated(change.before) !== isIsolated(change.after)) known = undefined;
  });
  return () => (known ??= read(parts));
}

function isReaderChanged({ before, after }: Change<NamespaceReport>): boolean {
  return before === undefined || after === undefined || before.spec.view !== after.spec.view;
}

function read({ reports, members, viewOf, namesViews }: Parts): ReadonlySet<string> {
  const views = new Set<string>();
  for (const { metadata, spec } of reports.store.list()) {
    if (spec.view !== undefined) views.add(spec.view);
    const cluster = clusterOfMailbox(metadata.namespace) ?? "";
    const member = members.store.get(objectKey(undefined, cluster));
    if (namesViews && member !== undefined && !isIsolated(member)) views.add(viewOf(cluster));
  }
  return views;
}

/** Returns a function that returns true if a view got its first reader, or lost its last, since the call before. */
export function watchReadViews(readViews: ReadViews): () => boolean {
  let before = readViews();
  return () => {
    const was = before;
    before = readViews();
    return was.symmetricDifference(before).size > 0;
  };
}
