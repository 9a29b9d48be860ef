import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  LONG_TERM_SUPPORT_LABEL,
  NODE_OS_SCHEDULE_ANNOTATION,
  REGION_LABELS,
  type ReleaseCatalog,
  UPDATE_GROUP_LABEL,
  UPGRADE_SCHEDULE_ANNOTATION,
  UPGRADER_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/updates.ts";

/** What update runs read of a MemberCluster. */
export interface UpdateMember {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly group: string | undefined;
  readonly region: string | undefined;
  readonly hasLongTermSupport: boolean;
  /** The engine; undefined if none is configured. */
  readonly upgrader: string | undefined;
  /** Maintenance windows, as text. */
  readonly schedules: { readonly kubernetes: string | undefined; readonly nodeOS: string | undefined };
}

export function updateMember({ metadata }: MemberCluster): UpdateMember {
  const { name, labels = {}, annotations = {} } = metadata;
  const region = REGION_LABELS.map((it) => labels[it]).find((it) => it !== undefined);
  return {
    name,
    labels,
    group: labels[UPDATE_GROUP_LABEL],
    region,
    hasLongTermSupport: labels[LONG_TERM_SUPPORT_LABEL] === "true",
    upgrader: annotations[UPGRADER_ANNOTATION],
    schedules: {
      kubernetes: annotations[UPGRADE_SCHEDULE_ANNOTATION],
      nodeOS: annotations[NODE_OS_SCHEDULE_ANNOTATION],
    },
  };
}

type Kubernetes = NonNullable<ReleaseCatalog["spec"]["kubernetesVersions"]>[number];
type Image = NonNullable<ReleaseCatalog["spec"]["nodeImages"]>[number];

/** What is available in a region. Undefined: no catalog is about it, so nothing is known and nothing is held back. */
export interface Releases {
  readonly kubernetes: readonly Kubernetes[] | undefined;
  readonly images: readonly Image[] | undefined;
}

export function releasesIn(catalogs: Iterable<ReleaseCatalog>, region: string | undefined): Releases {
  const specs = [...catalogs]
    .map((it) => it.spec)
    .filter((it) => it.region === undefined || it.region === region);
  const kubernetes = specs.flatMap((it) => it.kubernetesVersions ?? []);
  const images = specs.flatMap((it) => it.nodeImages ?? []);
  return {
    kubernetes: specs.some((it) => it.kubernetesVersions !== undefined) ? kubernetes : undefined,
    images: specs.some((it) => it.nodeImages !== undefined) ? images : undefined,
  };
}
