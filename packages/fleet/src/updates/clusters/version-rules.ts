import type { Releases } from "./fleet.ts";
import {
  compareToWanted,
  isSameVersion,
  type KubernetesVersion,
  minorsBetween,
  parseVersion,
} from "./versions.ts";

/** Rules about versions of Kubernetes: releases only, one minor version at a time, what the region has. */

export interface VersionQuestion {
  readonly from: string | undefined;
  readonly wanted: string;
  readonly releases: Releases["kubernetes"];
  readonly hasLongTermSupport: boolean;
  /** For messages. */
  readonly region: string;
}

export type VersionProblem =
  | { readonly is: "wait"; readonly message: string }
  | { readonly is: "fail"; readonly code: string; readonly message: string };

/** @returns Undefined if the version permits the upgrade. */
export function checkVersion(question: VersionQuestion): VersionProblem | undefined {
  const { from: actual, wanted, releases, region } = question;
  const to = parseVersion(wanted);
  const from = parseVersion(actual);
  if (to === undefined) return failed("VersionInvalid", `${wanted} is not a version`);
  if (from === undefined) return { is: "wait", message: "the version of the cluster is not known yet" };
  const released = releases?.find((it) => isSameVersion(it.version, wanted));
  if (releases !== undefined && released === undefined && to.pre === "" && minorsBetween(from, to) <= 1)
    return { is: "wait", message: `version ${wanted} is not available in ${region} yet` };
  return checkRelease({ from, to, released }, question);
}

interface Step {
  readonly from: KubernetesVersion;
  readonly to: KubernetesVersion;
  readonly released: NonNullable<Releases["kubernetes"]>[number] | undefined;
}

function checkRelease(
  { from, to, released }: Step,
  { from: actual, wanted, hasLongTermSupport }: VersionQuestion,
): VersionProblem | undefined {
  if (to.pre !== "" || released?.preview === true)
    return failed("VersionNotGA", `${wanted} is a preview; runs install releases only`);
  if (minorsBetween(from, to) > 1)
    return failed(
      "VersionSkipsMinor",
      `an upgrade from ${actual} to ${wanted} skips a minor version; upgrade to ${from.major}.${from.minor + 1} first`,
    );
  if (released?.longTermSupport === true && !hasLongTermSupport)
    return failed(
      "NoLongTermSupport",
      `${wanted} has long-term support only, which the member does not have: set label fairlead.dev/long-term-support=true of the MemberCluster`,
    );
  return undefined;
}

function failed(code: string, message: string): VersionProblem {
  return { is: "fail", code, message };
}

/** A cluster with a newer version is never downgraded. */
export function isNewer(actual: string | undefined, wanted: string | undefined): boolean {
  const [from, to] = [parseVersion(actual), parseVersion(wanted)];
  return from !== undefined && to !== undefined && compareToWanted(from, to) > 0;
}
