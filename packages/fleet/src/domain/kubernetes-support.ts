import { VERSION } from "@fairlead/base/version.ts";
import { byText } from "@fairlead/base/text.ts";

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

/** Of a release that is known here. */
export function supportIn(version: string, program: ReleaseProgram): Support | undefined {
  const row = RELEASES.find((it) => version.startsWith(`${it.release}.`));
  return row === undefined ? undefined : { version, kubernetes: row[program] };
}

/** Of the program that runs. */
export function ownSupport(program: ReleaseProgram): Support {
  const own = supportIn(VERSION, program);
  if (own === undefined) throw new Error(`RELEASES has no row for ${VERSION}`);
  return own;
}

/** Most versions that are reported of one program in one cluster: more are only there if a rollout follows on another. */
const MAX_VERSIONS = 4;

/** "0.1.0 for Kubernetes 1.25-1.36, 0.2.0 for Kubernetes 1.27-1.38". */
export function formatSupport(all: Iterable<Support>): string {
  const texts = [...all].map(
    ({ version, kubernetes: { from, to } }) => `${version} for Kubernetes ${from}-${to}`,
  );
  return [...new Set(texts)].toSorted(byText).slice(0, MAX_VERSIONS).join(", ");
}

const SUPPORT = /^(\d[0-9A-Za-z.+-]{0,63}) for Kubernetes (\d{1,4}\.\d{1,4})-(\d{1,4}\.\d{1,4})$/;

/** What is not of that form is left out. */
export function parseSupport(text: string | undefined): Support[] {
  return (text ?? "").split(", ", MAX_VERSIONS).flatMap((it) => {
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
