import { defined } from "@fairlead/base/defined.ts";
import type { Steps } from "@fairlead/base/turn.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  ENVELOPE_NAME_LABEL,
  ENVELOPE_NAMESPACE_LABEL,
  ENVELOPE_WORK_LABEL,
  PARENT_BINDING_LABEL,
  PARENT_CLUSTER_OVERRIDE_HASH_ANNOTATION,
  PARENT_OVERRIDE_HASH_ANNOTATION,
  PARENT_PLACEMENT_LABEL,
  PARENT_PLACEMENT_NAMESPACE_LABEL,
  PARENT_SNAPSHOT_INDEX_LABEL,
  PARENT_SNAPSHOT_NAME_ANNOTATION,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  ReportBackStrategy,
  ResourceBinding,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { WORK_INPUTS_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { applyOverrides } from "../overrides/apply.ts";
import type { ResolvedOverride } from "../overrides/resolve.ts";
import { completeStrategy } from "../rollout/plan.ts";
import { ContentError, type Envelopes, envelopeType, namespaceOf } from "./envelopes.ts";
import { hash, type WorkInputs, writeInputs } from "./inputs.ts";
import { envelopeWorkName, workName } from "./names.ts";

/** One part of a resource snapshot. */
export interface SnapshotPart {
  readonly name: string;
  /** Undefined: the first part. */
  readonly subindex: string | undefined;
  readonly resources: readonly KubeObject[];
}

export interface WorksInput {
  readonly binding: ResourceBinding;
  /** Of the resource snapshot. */
  readonly index: string;
  readonly parts: readonly SnapshotPart[];
  readonly overrides: readonly ResolvedOverride[];
  readonly reportBack: ReportBackStrategy | undefined;
  readonly inputs: WorkInputs;
  readonly envelopes: Envelopes;
}

/** A Work as this program writes it. */
export type PlannedWork = Pick<Work, "spec"> & {
  readonly metadata: Required<Pick<KubeObject["metadata"], "annotations" | "labels" | "name" | "namespace">>;
};

interface Manifests {
  readonly name: string;
  readonly snapshot: string;
  readonly manifests: readonly KubeObject[];
  readonly labels: Readonly<Record<string, string>>;
  /** The only one that the objects may be in; undefined: they may have any scope. */
  readonly namespace: string | undefined;
}

/**
 * The Works of a binding: one for each part of the snapshot, one for each envelope. The first part has one even if it is empty, so
 * that the cluster reports. Interrupted after each envelope: those of a tenant may be many.
 *
 * A right in one namespace must not become more in a member: what a ResourcePlacement or an envelope with a namespace places is in that
 * namespace. The Work names it, and the member, which knows the scope of each kind, refuses all else as well.
 *
 * @throws {OverrideError}
 * @throws {ContentError}
 */
export function* planWorks(input: WorksInput): Steps<readonly PlannedWork[]> {
  const { binding, parts, overrides, envelopes } = input;
  const own = binding.metadata.namespace;
  const works: Manifests[] = [];
  for (const { name: snapshot, subindex, resources } of parts) {
    const objects = applyOverrides(resources, overrides);
    if (own !== undefined) for (const it of objects) refuseOutside(own, it);
    const plain = objects.filter((it) => envelopeType(it) === undefined);
    if (subindex === undefined || plain.length > 0)
      works.push({
        name: workName(binding.metadata, subindex),
        snapshot,
        manifests: plain,
        labels: {},
        namespace: own,
      });
    for (const object of objects.filter((it) => envelopeType(it) !== undefined)) {
      const { envelope, manifests } = envelopes.open(object);
      const { name, type, namespace } = envelope;
      const labels = {
        [ENVELOPE_WORK_LABEL]: type,
        [ENVELOPE_NAME_LABEL]: name,
        ...(namespace === undefined ? {} : { [ENVELOPE_NAMESPACE_LABEL]: namespace }),
      };
      works.push({
        name: envelopeWorkName(binding.metadata, envelope),
        snapshot,
        manifests,
        labels,
        namespace,
      });
      yield;
    }
  }
  return works.map((it) => workOf(it, input, works.length));
}

/** Selectors select nothing outside: a user wrote the snapshot. */
function refuseOutside(own: string, object: KubeObject): void {
  const found = namespaceOf(object);
  if (found === own) return;
  const where = found === undefined ? "no namespace" : `the namespace "${found}"`;
  throw new ContentError(
    `${object.kind} "${object.metadata.name}" has ${where}: a ResourcePlacement places objects of its own namespace "${own}" only`,
  );
}

function workOf(
  { name, snapshot, manifests, labels, namespace }: Manifests,
  { binding, index, inputs, reportBack }: WorksInput,
  count: number,
): PlannedWork {
  const { metadata, spec } = binding;
  return {
    metadata: {
      name,
      namespace: mailboxOf(spec.targetCluster),
      labels: {
        [PARENT_PLACEMENT_LABEL]: metadata.labels?.[PARENT_PLACEMENT_LABEL] ?? "",
        [PARENT_BINDING_LABEL]: metadata.name,
        [PARENT_SNAPSHOT_INDEX_LABEL]: index,
        ...(metadata.namespace === undefined
          ? {}
          : { [PARENT_PLACEMENT_NAMESPACE_LABEL]: metadata.namespace }),
        ...labels,
      },
      annotations: {
        [PARENT_SNAPSHOT_NAME_ANNOTATION]: snapshot,
        [PARENT_CLUSTER_OVERRIDE_HASH_ANNOTATION]: hash(spec.clusterResourceOverrideSnapshots ?? []),
        [PARENT_OVERRIDE_HASH_ANNOTATION]: hash(spec.resourceOverrideSnapshots ?? []),
        [WORK_INPUTS_ANNOTATION]: writeInputs(inputs, count),
      },
    },
    spec: {
      workload: { manifests: [...manifests] },
      ...defined({ namespace }),
      applyStrategy: completeStrategy(spec.applyStrategy),
      ...defined({ reportBackStrategy: reportBack }),
    },
  };
}
