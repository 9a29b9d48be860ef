import { defined } from "@fairlead/base/defined.ts";
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
import { envelopeType, openEnvelope } from "./envelopes.ts";
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
}

/**
 * The Works of a binding: one for each part of the snapshot, one for each envelope. The first part has one even if it is empty, so
 * that the cluster reports.
 *
 * @throws {OverrideError}
 * @throws {EnvelopeError}
 */
export function planWorks(input: WorksInput): readonly PlannedWork[] {
  const { binding, parts, overrides } = input;
  const works = parts.flatMap(({ name: snapshot, subindex, resources }): Manifests[] => {
    const objects = applyOverrides(resources, overrides);
    const plain = objects.filter((it) => envelopeType(it) === undefined);
    const name = workName(binding.metadata, subindex);
    const envelopes = objects.filter((it) => envelopeType(it) !== undefined).map(openEnvelope);
    return [
      ...(subindex === undefined || plain.length > 0
        ? [{ name, snapshot, manifests: plain, labels: {} }]
        : []),
      ...envelopes.map(({ envelope, manifests }) => ({
        name: envelopeWorkName(binding.metadata, envelope),
        snapshot,
        manifests,
        labels: {
          [ENVELOPE_WORK_LABEL]: envelope.type,
          [ENVELOPE_NAME_LABEL]: envelope.name,
          ...(envelope.namespace === undefined ? {} : { [ENVELOPE_NAMESPACE_LABEL]: envelope.namespace }),
        },
      })),
    ];
  });
  return works.map((it) => workOf(it, input, works.length));
}

function workOf(
  { name, snapshot, manifests, labels }: Manifests,
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
      applyStrategy: completeStrategy(spec.applyStrategy),
      ...defined({ reportBackStrategy: reportBack }),
    },
  };
}
