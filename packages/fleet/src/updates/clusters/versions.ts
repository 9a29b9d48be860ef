/** Versions of Kubernetes: "1.33.4", "v1.33.4+k3s1". */
export interface KubernetesVersion {
  readonly major: number;
  readonly minor: number;
  readonly patch: number;
  /** "rc.1"; "" for a release. */
  readonly pre: string;
  /** "k3s1"; "" without. */
  readonly build: string;
}

const VERSION = /^v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?$/;

/** @returns Undefined if the text is not a version. */
export function parseVersion(text: string | undefined): KubernetesVersion | undefined {
  const [, major, minor, patch, pre = "", build = ""] = VERSION.exec(text ?? "") ?? [];
  if (major === undefined) return undefined;
  return { major: Number(major), minor: Number(minor), patch: Number(patch), pre, build };
}

/** Orders versions; builds by their natural order, as "k3s2" after "k3s1". */
export function compareVersions(a: KubernetesVersion, b: KubernetesVersion): number {
  return (
    a.major - b.major ||
    a.minor - b.minor ||
    a.patch - b.patch ||
    Number(a.pre === "") - Number(b.pre === "") ||
    naturally(a.pre, b.pre) ||
    naturally(a.build, b.build)
  );
}

export function naturally(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}

/** Compares an actual version with a wanted one. A wanted version without a build stands for all its builds. */
export function compareToWanted(actual: KubernetesVersion, wanted: KubernetesVersion): number {
  return compareVersions(wanted.build === "" ? { ...actual, build: "" } : actual, wanted);
}

export function isSameVersion(actual: string | undefined, wanted: string): boolean {
  const [a, b] = [parseVersion(actual), parseVersion(wanted)];
  return a !== undefined && b !== undefined && compareToWanted(a, b) === 0;
}

/** How many minor versions lie between two versions; Infinity between two major ones. */
export function minorsBetween(from: KubernetesVersion, to: KubernetesVersion): number {
  return from.major === to.major ? to.minor - from.minor : Infinity;
}

export interface ImageVersion {
  readonly family: string;
  readonly version: string;
}

/** Splits a node image at its last dash: "ubuntu-2404-20260801" is of the family "ubuntu-2404". */
export function parseImage(text: string): ImageVersion {
  const at = text.lastIndexOf("-");
  return at < 0 ? { family: text, version: "" } : { family: text.slice(0, at), version: text.slice(at + 1) };
}
