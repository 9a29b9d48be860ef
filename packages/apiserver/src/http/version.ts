import type { Minor } from "#schema/releases.ts";

type VersionInfo = Readonly<Record<string, string>> & { readonly gitVersion: string };

/** The answer to `/version`: the minor whose kinds are served. */
export function versionInfo(release: Minor): VersionInfo {
  const minor = Number(release.slice(release.indexOf(".") + 1));
  return {
    major: "1",
    minor: String(minor),
    emulationMajor: "1",
    emulationMinor: String(minor),
    minCompatibilityMajor: "1",
    minCompatibilityMinor: String(minor - 1),
    gitVersion: `v${release}.0+fairlead`,
    gitCommit: "",
    gitTreeState: "clean",
    buildDate: "1970-01-01T00:00:00Z",
    goVersion: "",
    compiler: "",
    platform: `linux/${process.arch === "x64" ? "amd64" : process.arch}`,
  };
}
