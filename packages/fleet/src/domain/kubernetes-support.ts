import { VERSION } from "@fairlead/base/version.ts";
import { byText } from "@fairlead/base/text.ts";
import {
  HUB_SUPPORT_ANNOTATION,
  NODE_RELEASES_ANNOTATION,
  VERSION_ANNOTATION,
} from "#api/fairlead.dev/names.ts";

/** Which versions of Kubernetes our programs support: known for each release, and reported by the programs that run. Pure. */

export const PROGRAMS_OF_RELEASE = ["hub", "member", "node"] as const;
export type ReleaseProgram = (typeof PROGRAMS_OF_RELEASE)[number];

/** Minor versions of Kubernetes, both included. */
export interface KubernetesRange {
  readonly from: string;
  readonly to: string;
}

/**
 * The minor versions of Kubernetes that each release supports, newest first. A new minor version of Fairlead adds a row; rows of
 * former ones do not change, so that a hub knows the releases before its own. docs/reference/support.md shows them.
 */
export const RELEASES: readonly ({ readonly release: string } & Readonly<
  Record<ReleaseProgram, KubernetesRange>
>)[] = [
  {
    release: "0.1",
    hub: { from: "1.25", to: "1.36" },
    member: { from: "1.25", to: "1.36" },
    node: { from: "1.25", to: "1.36" },
  },
];

export interface Support {
  /** Of the program. */
  readonly version: string;
  readonly kubernetes: KubernetesRange;
}

/** A hub answers for itself, and for the releases of `fairlead node` that it knows. */
export interface HubSupport extends Support {
  /** The version of each is that of a release: "0.1". */
  readonly nodeReleases: readonly Support[];
}

/** Those that are known here. */
export function releasesOf(program: ReleaseProgram): readonly Support[] {
  return RELEASES.map((it) => ({ version: it.release, kubernetes: it[program] }));
}

/** Of a version whose release is known. */
export function supportIn(version: string, releases: readonly Support[]): Support | undefined {
  const row = releases.find((it) => version.startsWith(`${it.version}.`));
  return row === undefined ? undefined : { version, kubernetes: row.kubernetes };
}

/** Of the program that runs. */
export function ownSupport(program: ReleaseProgram): Support {
  const own = supportIn(VERSION, releasesOf(program));
  if (own === undefined) throw new Error(`RELEASES has no row for ${VERSION}`);
  return own;
}

/** Of the hub that runs. */
export function ownHubSupport(): HubSupport {
  return { ...ownSupport("hub"), nodeReleases: releasesOf("node") };
}

/** Most versions that are reported of one program in one cluster: more are only there if a rollout follows on another. */
const MAX_VERSIONS = 4;

/** Most releases that a hub is read to know: each minor version of Fairlead is one. */
const MAX_RELEASES = 100;

/** Annotations of the Lease of a hub: what it supports. */
export function hubSupportAnnotations(): Readonly<Record<string, string>> {
  const { nodeReleases, ...own } = ownHubSupport();
  return {
    [HUB_SUPPORT_ANNOTATION]: formatSupport([own]),
    [NODE_RELEASES_ANNOTATION]: formatSupport(nodeReleases, MAX_RELEASES),
  };
}

/** @returns Undefined if the hub that wrote them does not say: an older one leaves those of its predecessor. */
export function parseHubSupport(annotations: Readonly<Record<string, string>> = {}): HubSupport | undefined {
  const [own] = parseSupport(annotations[HUB_SUPPORT_ANNOTATION]);
  if (own === undefined || own.version !== annotations[VERSION_ANNOTATION]) return undefined;
  return { ...own, nodeReleases: parseSupport(annotations[NODE_RELEASES_ANNOTATION], MAX_RELEASES) };
}

/** "0.1.0 for Kubernetes 1.25-1.36, 0.2.0 for Kubernetes 1.27-1.38". */
export function formatSupport(all: Iterable<Support>, most = MAX_VERSIONS): string {
  const texts = [...all].map(
    ({ version, kubernetes: { from, to } }) => `${version} for Kubernetes ${from}-${to}`,
  );
  return [...new Set(texts)].toSorted(byText).slice(0, most).join(", ");
}

const SUPPORT = /^(\d[0-9A-Za-z.+-]{0,63}) for Kubernetes (\d{1,4}\.\d{1,4})-(\d{1,4}\.\d{1,4})$/;

/** What is not of that form is left out. */
export function parseSupport(text: string | undefined, most = MAX_VERSIONS): Support[] {
  return (text ?? "").split(", ", most).flatMap((it) => {
    const [, version = "", from = "", to = ""] = SUPPORT.exec(it) ?? [];
    return version === "" ? [] : [{ version, kubernetes: { from, to } }];
  });
}

/** @param version - Of Kubernetes: "1.34.1", "v1.34.1+k3s1". */
export function isSupported(version: string, { from, to }: KubernetesRange): boolean {
  const [actual, first, last] = [version, from, to].map(minorOf);
  if (actual === undefined || first === undefined || last === undefined) return false;
  return first <= actual && actual <= last;
}

const MINOR = /^v?(\d{1,4})\.(\d{1,4})(?![0-9])/;

function minorOf(version: string): number | undefined {
  const found = MINOR.exec(version);
  return found === null ? undefined : Number(found[1]) * 10_000 + Number(found[2]);
}
