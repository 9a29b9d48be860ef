/** Where the upstream suite comes from: a test binary that someone names, or one built from the Go module proxy. */

import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import { exec, type ExecResult } from "@fairlead/base/exec.ts";

/** The suite's module, by the name under which it is published. */
const MODULE = "sigs.k8s.io/mcs-api/conformance";
/** What we hold ourselves to; "latest" asks for the newest tag. */
export const PINNED = "v0.5.0";

/** Environment variables that name a compiled suite (`go test -c`), as KUBEBUILDER_ASSETS names an API server. */
const SUITE_VARIABLE = "MCS_CONFORMANCE";
const LATEST_VARIABLE = "MCS_CONFORMANCE_LATEST";

export type Suite =
  | { readonly kind: "found"; readonly path: string; readonly version: string }
  /** `why`: what is missing and how to get it. */
  | { readonly kind: "missing"; readonly why: string };

export interface SuiteSearch {
  /** A tag, or "latest". */
  readonly version: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Built suites are kept here, one for each version. */
  readonly cache: string;
  readonly signal: AbortSignal;
  /** Default: the `go` on the path. */
  readonly go?: Go;
}

export type Go = (args: readonly string[], cwd: string) => Promise<ExecResult>;

/** The variable that may name a suite of this version: another version's binary is never taken for it. */
export function variableOf(version: string): string | undefined {
  if (version === "latest") return LATEST_VARIABLE;
  return version === PINNED ? SUITE_VARIABLE : undefined;
}

export async function findSuite(search: SuiteSearch): Promise<Suite> {
  const { version, environment, cache } = search;
  const variable = variableOf(version);
  const named = variable === undefined ? undefined : environment[variable];
  if (named !== undefined && named !== "")
    return existsSync(named)
      ? { kind: "found", path: named, version }
      : { kind: "missing", why: `${variable} names ${named}, which is not there` };
  const built = pathOf(cache, version);
  if (existsSync(built)) return { kind: "found", path: built, version };
  const go = search.go ?? runGo(search.signal);
  const otherwise = variable === undefined ? "" : `, or name a compiled suite in ${variable}`;
  try {
    await go(["version"], tmpdir());
  } catch (error) {
    if (!isMissing(error)) throw error;
    return {
      kind: "missing",
      why: `there is no Go on the path to build ${MODULE} with; install it${otherwise}`,
    };
  }
  const folder = mkdtempSync(join(tmpdir(), "conformance-"));
  try {
    return await build(search, go, folder);
  } catch (error) {
    if (!hasCode(error, "EXEC_FAILED")) throw error;
    const why = `Go cannot get ${MODULE}@${search.version} (${lastLine(messageOf(error))}); see GOPROXY${otherwise}`;
    return { kind: "missing", why };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function pathOf(cache: string, version: string): string {
  return join(cache, `mcs-conformance-${version}.test`);
}

/** In a separate module, so that only the suite's own requirements decide what it is built from. */
async function build({ version: wanted, cache }: SuiteSearch, go: Go, folder: string): Promise<Suite> {
  writeFileSync(join(folder, "go.mod"), "module conformance\n\ngo 1.23.0\n");
  const listed = await go(["list", "-m", "-f", "{{.Version}}", `${MODULE}@${wanted}`], folder);
  const version = listed.stdout.trim();
  const path = pathOf(cache, version);
  if (!existsSync(path)) {
    await go(["get", "-t", `${MODULE}@${version}`], folder);
    mkdirSync(dirname(path), { recursive: true });
    await go(["test", "-c", "-o", path, MODULE], folder);
  }
  return { kind: "found", path, version };
}

/** Unit: milliseconds. The first build compiles the whole Kubernetes client. */
const GO_TIMEOUT_MS = 20 * 60_000;

function runGo(signal: AbortSignal): Go {
  return (args, cwd) => exec("go", args, { cwd, signal, timeoutMs: GO_TIMEOUT_MS });
}

function isMissing(error: unknown): boolean {
  return error instanceof FleetError && error.cause instanceof Error && "code" in error.cause
    ? error.cause.code === "ENOENT"
    : false;
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1)?.trim() ?? "";
}
