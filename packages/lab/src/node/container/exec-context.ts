import { readFileSync } from "node:fs";
import { join } from "node:path";
import { FleetError } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";

/** The facts of a container that `exec` needs. The kubelet that starts the container writes them into its folder. */
export interface ExecContext {
  /** Words before the environment and the program: they drop the privileges that the container's user does not have. */
  readonly prefix: readonly string[];
  /** NAME=VALUE */
  readonly env: readonly string[];
  readonly workingDir: string;
  /** Environment of the process that enters the container; the lab recognizes its own processes by it. */
  readonly shimEnv: Readonly<Record<string, string>>;
}

export const EXEC_CONTEXT_FILE = "exec.json";

export function readExecContext(folder: string): ExecContext {
  const value: unknown = JSON.parse(readFileSync(join(folder, EXEC_CONTEXT_FILE), "utf8"));
  if (!isObject(value) || !Array.isArray(value["env"]) || typeof value["workingDir"] !== "string")
    throw new FleetError("EXEC_FAILED", `the file ${EXEC_CONTEXT_FILE} of the container is damaged`);
  const shimEnv = isObject(value["shimEnv"]) ? value["shimEnv"] : {};
  return {
    prefix: Array.isArray(value["prefix"]) ? value["prefix"].map(String) : [],
    env: value["env"].map(String),
    workingDir: value["workingDir"],
    shimEnv: Object.fromEntries(Object.entries(shimEnv).map(([name, text]) => [name, String(text)])),
  };
}
