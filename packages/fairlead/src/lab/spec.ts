import { parseWhole } from "@fairlead/base/program/flags.ts";
import type { ExtraProgram, LabSpec } from "@fairlead/lab/topology.ts";
import { NODE_PROGRAM, PARALLEL_PROGRAMS, UPGRADE_PROGRAM } from "./parallel.ts";

/** The shape of a lab, by the options of `lab up`. Pure. */

export interface ShapeOptions {
  readonly name: string;
  readonly members: string;
  readonly nodes: string;
  readonly topology: string;
  readonly nat: string;
  readonly natUdpSeconds: string;
  readonly natUdpStreamSeconds: string;
  readonly ipFamily: string;
  readonly leaseSeconds: string;
  readonly kubernetesVersion: string;
  readonly serviceImports: "automatic" | "manual";
  readonly bare?: true | undefined;
  readonly networkPolicy?: true | undefined;
  readonly upgrades?: true | undefined;
}

/** Those that decide on the programs that run in addition to the fleet's. */
const OF_EXTRAS = ["topology", "networkPolicy", "upgrades"] as const;

/**
 * What a user does not ask for stays as it is in a lab that is there: `lab up` repairs it without the options that made it.
 *
 * @param isGiven - Whether an option was given, and is not a default.
 */
export function specOf(
  options: ShapeOptions,
  isGiven: (option: keyof ShapeOptions) => boolean,
  found: LabSpec | undefined,
): LabSpec {
  const wanted: LabSpec = {
    name: options.name,
    members: parseWhole("--members", options.members),
    nodes: parseWhole("--nodes", options.nodes),
    // Checked, with all the rest, by checkSpec.
    topology: options.topology as "flat",
    nat: options.nat as "mixed",
    natUdpSeconds: parseWhole("--nat-udp-seconds", options.natUdpSeconds),
    natUdpStreamSeconds: parseWhole("--nat-udp-stream-seconds", options.natUdpStreamSeconds),
    ipFamily: options.ipFamily as "dual",
    leaseSeconds: parseWhole("--lease-seconds", options.leaseSeconds),
    bare: options.bare === true,
    release: options.kubernetesVersion as "1.36",
    ...(options.serviceImports === "manual" ? { serviceImports: "manual" } : {}),
    extras: extrasOf(options),
  };
  if (found === undefined) return wanted;
  const kept = <K extends keyof LabSpec>(field: K, ...by: readonly (keyof ShapeOptions)[]): LabSpec[K] =>
    by.some((it) => isGiven(it)) ? wanted[field] : found[field];
  const serviceImports = kept("serviceImports", "serviceImports");
  return {
    name: options.name,
    members: kept("members", "members"),
    nodes: kept("nodes", "nodes"),
    topology: kept("topology", "topology"),
    nat: kept("nat", "nat"),
    natUdpSeconds: kept("natUdpSeconds", "natUdpSeconds"),
    natUdpStreamSeconds: kept("natUdpStreamSeconds", "natUdpStreamSeconds"),
    ipFamily: kept("ipFamily", "ipFamily"),
    leaseSeconds: kept("leaseSeconds", "leaseSeconds"),
    bare: kept("bare", "bare"),
    release: kept("release", "kubernetesVersion"),
    ...(serviceImports === undefined ? {} : { serviceImports }),
    extras: kept("extras", ...OF_EXTRAS),
  };
}

function extrasOf({ topology, networkPolicy, upgrades }: ShapeOptions): readonly ExtraProgram[] {
  const network = topology === "nat" ? PARALLEL_PROGRAMS : networkPolicy === true ? [NODE_PROGRAM] : [];
  return [...network, ...(upgrades === true ? [UPGRADE_PROGRAM] : [])];
}
