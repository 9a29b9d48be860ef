import { Option } from "@commander-js/extra-typings";
import { FleetError } from "@fairlead/base/errors.ts";
import {
  CIDR_MATCHES,
  type CidrMatch,
  type NetworkTerms,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { defined } from "@fairlead/base/defined.ts";

/** Flags of commands for the settings of a ClusterMeshProfile that decide what is shared, and what policies mean. */

const BOOLEANS = ["true", "false"] as const;
type BooleanOption<Usage extends string> = Option<
  Usage,
  undefined,
  undefined,
  undefined,
  false,
  (typeof BOOLEANS)[number]
>;

export function globalNamespaceOption(): BooleanOption<"--default-global-namespace <bool>"> {
  return new Option(
    "--default-global-namespace <bool>",
    "share namespaces without the annotation clustermesh.cilium.io/global; default: true",
  ).choices(BOOLEANS);
}

export function localClusterOption(): BooleanOption<"--policy-default-local-cluster <bool>"> {
  return new Option(
    "--policy-default-local-cluster <bool>",
    "peers of policies that name no cluster are local; default: true",
  ).choices(BOOLEANS);
}

export const CIDR_MATCH_FLAG = [
  "--policy-cidr-match-mode <kinds>",
  'what CIDRs in Cilium\'s kinds of policies match, too: nodes, pods, or both with a comma; "" for neither, the default',
] as const;

export interface ProfileSettingFlags {
  readonly defaultGlobalNamespace?: "true" | "false" | undefined;
  readonly policyDefaultLocalCluster?: "true" | "false" | undefined;
  readonly policyCidrMatchMode?: string | undefined;
}

type ProfileSettings = Pick<
  NetworkTerms,
  "defaultGlobalNamespace" | "policyDefaultLocalCluster" | "policyCIDRMatchMode"
>;

/** @throws {FleetError} `OPTION_INVALID` */
export function readProfileSettings(flags: ProfileSettingFlags): ProfileSettings {
  return defined({
    defaultGlobalNamespace: parseBoolean(flags.defaultGlobalNamespace),
    policyDefaultLocalCluster: parseBoolean(flags.policyDefaultLocalCluster),
    policyCIDRMatchMode: parseCidrMatches(flags.policyCidrMatchMode),
  });
}

function parseBoolean(text: "true" | "false" | undefined): boolean | undefined {
  return text === undefined ? undefined : text === "true";
}

function parseCidrMatches(text: string | undefined): CidrMatch[] | undefined {
  if (text === undefined) return undefined;
  const words = text.split(",").filter((it) => it !== "");
  const wrong = words.find((it) => !CIDR_MATCHES.some((known) => known === it));
  if (wrong !== undefined)
    throw new FleetError(
      "OPTION_INVALID",
      `--policy-cidr-match-mode: ${JSON.stringify(wrong)} is not one of ${CIDR_MATCHES.join(", ")}`,
    );
  return CIDR_MATCHES.filter((it) => words.includes(it));
}
