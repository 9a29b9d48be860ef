import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { versionInfo } from "#http/version.ts";
import { MINORS } from "#schema/releases.ts";
import { findKubectl } from "@fairlead/base/program/kubectl.ts";
import { ownCommand } from "@fairlead/base/program/self.ts";

/** The programs that envtest looks for in KUBEBUILDER_ASSETS, in addition to kubectl. */
const PROGRAMS = ["kube-apiserver", "etcd"] as const;

/** The version of Kubernetes whose API is served, as setup-envtest writes it: without the "v". */
export const VERSION = versionInfo(MINORS[0]).gitVersion.slice(1).split("+", 1)[0] ?? "";

export interface Assets {
  readonly folder: string;
  /** Whether there is a kubectl; envtest needs it where a test calls it. */
  readonly hasKubectl: boolean;
}

/** Where the programs are put by default. */
export function defaultFolder(environment: Readonly<Record<string, string | undefined>>): string {
  const data = environment["XDG_DATA_HOME"] ?? "";
  return join(data === "" ? join(homedir(), ".local", "share") : data, "fairlead", "envtest");
}

/** The folder of the programs below `binDir`. */
export function folderOf(binDir: string): string {
  return join(binDir, `${VERSION}-linux-${process.arch === "x64" ? "amd64" : process.arch}`);
}

/**
 * Writes the programs, each a line that starts this executable under the program's name. Two at once do not disturb each other.
 *
 * @throws {FleetError} `OPTION_INVALID` where the folder cannot be written.
 */
export function writeAssets(binDir: string): Assets {
  const folder = folderOf(binDir);
  const kubectl = tryFindKubectl();
  try {
    mkdirSync(folder, { recursive: true });
    for (const name of PROGRAMS) writeProgram(folder, name);
    if (kubectl !== undefined) replaceLink(folder, kubectl);
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `--bin-dir: cannot write ${folder}`, { cause });
  }
  return { folder, hasKubectl: kubectl !== undefined };
}

function writeProgram(folder: string, name: string): void {
  const command = ownCommand(process.execArgv).map(quote).join(" ");
  const made = join(folder, `.${name}.${process.pid}`);
  writeFileSync(made, `#!/bin/sh\nexec ${command} ${name} "$@"\n`, { mode: 0o755 });
  renameSync(made, join(folder, name));
}

function replaceLink(folder: string, kubectl: string): void {
  const made = join(folder, `.kubectl.${process.pid}`);
  rmSync(made, { force: true });
  symlinkSync(kubectl, made);
  renameSync(made, join(folder, "kubectl"));
}

function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function tryFindKubectl(): string | undefined {
  try {
    return findKubectl();
  } catch (error) {
    if (hasCode(error, "LAB_UNSUPPORTED")) return undefined;
    throw error;
  }
}
