import { createHash } from "node:crypto";
import { jsonKey } from "@fairlead/base/json.ts";
import type {
  ReportBackStrategy,
  ResourceBindingSpec,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/**
 * What the Works of a binding are made from, as an annotation of each of them: Works that say it are as they should be, and the contents
 * need not be read. `HASH OF THE NAMES.HASH OF THE CONTENTS.NUMBER OF WORKS`.
 */
export interface WorkInputs {
  readonly names: string;
  /** Undefined while a snapshot that is named does not exist, or was not seen yet. */
  readonly contents: string | undefined;
}

/** @param contents - Everything that decides what the named snapshots come to in the cluster. */
export function inputsOf(
  spec: ResourceBindingSpec,
  reportBack: ReportBackStrategy | undefined,
  contents: unknown,
): WorkInputs {
  const named = [
    spec.resourceSnapshotName,
    spec.clusterResourceOverrideSnapshots ?? [],
    spec.resourceOverrideSnapshots ?? [],
    spec.applyStrategy ?? null,
    reportBack ?? null,
  ];
  return { names: hash(named), contents: contents === undefined ? undefined : hash(contents) };
}

export function writeInputs({ names, contents = "" }: WorkInputs, count: number): string {
  return `${names}.${contents}.${count}`;
}

/** Whether `works` are all that was made from the inputs, and nothing else. */
export function areMadeFrom(inputs: WorkInputs, annotations: readonly (string | undefined)[]): boolean {
  const [first] = annotations;
  if (first === undefined || annotations.some((it) => it !== first)) return false;
  const [names, contents, count] = first.split(".");
  const isSame = inputs.contents === undefined || inputs.contents === contents;
  return names === inputs.names && isSame && Number(count) === annotations.length;
}

export function hash(value: unknown): string {
  return createHash("sha256").update(jsonKey(value)).digest("hex").slice(0, 32);
}
