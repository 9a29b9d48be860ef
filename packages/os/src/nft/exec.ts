import { defined } from "@fairlead/base/defined.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { exec, type ExecResult } from "@fairlead/base/exec.ts";
import type { NftOp } from "./diff.ts";
import type { NftDriver } from "./driver.ts";
import { parseCounters, parseTable } from "./parse.ts";
import { renderScript, renderTable } from "./render.ts";
import { checkName } from "./rule.ts";
import type { NftTable, NftTableName } from "./state.ts";

export interface ExecNftOptions {
  /** Put before `nft`: the way into another network namespace, if any. Default: none. */
  readonly prefix?: readonly string[];
}

/** Longest that nft may take: a table of 100 000 elements takes seconds on a busy machine. Unit: milliseconds. */
const TIMEOUT_MS = 60_000;

/**
 * The back end that runs `nft`: 4 ms for a transaction that only adds, 16 ms for one that deletes, of any size
 * (the kernel's deferred destruction is awaited when nft closes its socket). Works with nft 1.0.6 and later.
 */
export function createExecNft(options: ExecNftOptions = {}): NftDriver {
  const [command, ...before] = [...(options.prefix ?? []), "nft"];
  const nft = (args: readonly string[], signal: AbortSignal, input?: string): Promise<ExecResult> =>
    exec(command, [...before, ...args], {
      signal,
      timeoutMs: TIMEOUT_MS,
      allowFailure: true,
      // Its messages are read: they must be in English.
      addEnv: { LC_ALL: "C" },
      ...defined({ input }),
    });
  /** The JSON of one set or map; undefined if it does not exist. */
  const listSet = async (
    kind: "map" | "set",
    table: NftTableName,
    { set, signal }: { readonly set: string; readonly signal: AbortSignal },
  ): Promise<string | undefined> => {
    const of = [...renderTable(table).split(" "), checkName(set)];
    const result = await nft(["--json", "--numeric-protocol", "list", kind, ...of], signal);
    try {
      checkResult(result, "read", table);
      return result.stdout;
    } catch (error) {
      if (hasCode(error, "NFT_NOT_FOUND")) return undefined;
      throw error;
    }
  };
  return {
    async read(table: NftTableName, signal: AbortSignal): Promise<NftTable | undefined> {
      const args = ["--json", "--numeric-protocol", "list", "table", ...renderTable(table).split(" ")];
      const result = await nft(args, signal);
      try {
        checkResult(result, "read", table);
      } catch (error) {
        if (hasCode(error, "NFT_NOT_FOUND")) return undefined;
        throw error;
      }
      return parseTable(result.stdout);
    },
    async readMap(table, set, signal) {
      const listed = await listSet("map", table, { set, signal });
      return (listed === undefined ? undefined : parseTable(listed).sets.get(set)?.elements) ?? new Map();
    },
    async readCounters(table, set, signal) {
      const listed = await listSet("set", table, { set, signal });
      return listed === undefined ? new Map() : parseCounters(listed, set);
    },
    async apply(table: NftTableName, ops: readonly NftOp[], signal: AbortSignal): Promise<void> {
      if (ops.length === 0) return;
      checkResult(await nft(["--file", "-"], signal, renderScript(table, ops)), "change", table);
    },
    [Symbol.dispose]() {},
  };
}

/** nft reports an errno as `strerror` words it, behind where in the script it happened. */
function checkResult(result: ExecResult, verb: "read" | "change", table: NftTableName): void {
  if (result.exitCode === 0) return;
  const said = result.stderr.trim();
  const code = errorCode(said);
  const message = `cannot ${verb} nftables table ${table.family} ${table.name}: ${said.slice(0, 500)}`;
  throw new FleetError(code, message, {
    retriable: code !== "NFT_FAILED",
    detail: { exitCode: result.exitCode },
  });
}

function errorCode(said: string): "NFT_EXISTS" | "NFT_FAILED" | "NFT_NOT_FOUND" {
  const first = said.split("\n", 1)[0] ?? "";
  if (first.includes("No such file or directory")) return "NFT_NOT_FOUND";
  if (first.includes("File exists")) return "NFT_EXISTS";
  // nft resolves names in its own view first, and words it so.
  return /\b(?:set|chain|table|map) .*does not exist/i.test(first) ? "NFT_NOT_FOUND" : "NFT_FAILED";
}
