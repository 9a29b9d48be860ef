import { defined } from "@fairlead/base/defined.ts";
import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import { MAX_OWN_YAML, readYaml } from "@fairlead/kube/yaml/read.ts";
import type {
  NODE_IMAGE_SELECTIONS,
  StrategySpec,
  UpdateRun,
  UpgradeType,
} from "#api/fairlead.dev/v1alpha1/updates.ts";

/** A run as the flags of `fairlead updaterun create` describe it. */
export interface RunDraft {
  readonly upgradeType: UpgradeType;
  readonly kubernetesVersion: string | undefined;
  readonly componentsVersion: string | undefined;
  readonly nodeImageSelection: (typeof NODE_IMAGE_SELECTIONS)[number] | undefined;
  readonly nodeImageVersions: readonly string[];
  readonly updateStrategyName: string | undefined;
  readonly strategy: StrategySpec | undefined;
}

export function draftRun(name: string, draft: RunDraft): UpdateRun {
  const {
    upgradeType: type,
    kubernetesVersion,
    componentsVersion,
    nodeImageVersions,
    updateStrategyName,
    strategy,
  } = draft;
  const custom = nodeImageVersions.map((version) => ({ version }));
  const selection = draft.nodeImageSelection ?? (custom.length === 0 ? undefined : "Custom");
  return {
    metadata: { name },
    spec: {
      managedClusterUpdate: {
        upgrade: { type, ...defined({ kubernetesVersion, componentsVersion }) },
        ...(selection === undefined
          ? {}
          : {
              nodeImageSelection: {
                type: selection,
                ...(custom.length === 0 ? {} : { customNodeImageVersions: custom }),
              },
            }),
      },
      ...(updateStrategyName === undefined ? {} : { updateStrategyName }),
      ...(strategy === undefined ? {} : { strategy }),
    },
  };
}

/** Reads stages from a file: an object with `stages`, or an UpdateStrategy. The server checks the rest. */
export function parseStages(text: string, file: string): StrategySpec {
  let value: unknown;
  try {
    value = readYaml(text, MAX_OWN_YAML).value;
  } catch (error) {
    throw new FleetError("OPTION_INVALID", `--stages: ${file} is not YAML or JSON: ${messageOf(error)}`);
  }
  const spec = isObject(value) && isObject(value["spec"]) ? value["spec"] : value;
  if (isObject(spec) && Array.isArray(spec["stages"])) return spec as unknown as StrategySpec;
  throw new FleetError("OPTION_INVALID", `--stages: ${file} has no list "stages"`);
}
