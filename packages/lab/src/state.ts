/** What is kept of a lab on disk, and the lock that keeps two commands from working on it at once. */

import {
  accessSync,
  constants,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import { type LabLayout, labLayout } from "./layout.ts";
import { startTicksOf } from "./processes.ts";
import type { LabTopology } from "./topology.ts";

export interface LabState {
  readonly topology: LabTopology;
  /** Whether a tmpfs of its own is mounted on the lab's folder. */
  readonly hasTmpfs: boolean;
  /** What people killed by `lab kill` and did not restore: `lab up` brings all of it back. */
  readonly killed: readonly string[];
}

export function readState(layout: LabLayout): LabState | undefined {
  let text: string;
  try {
    text = readFileSync(layout.stateFile, "utf8");
  } catch {
    return undefined;
  }
  const value: unknown = JSON.parse(text);
  if (isObject(value) && isObject(value["topology"]) && Array.isArray(value["killed"]))
    return value as unknown as LabState;
  throw new FleetError(
    "LAB_INVALID",
    `${layout.stateFile} is not the state of a lab. lab down removes what is left of it.`,
  );
}

/** @throws {FleetError} `LAB_NOT_FOUND` */
export function requireState(layout: LabLayout, name: string): LabState {
  const state = readState(layout);
  if (state !== undefined) return state;
  const others = listLabs(dirname(layout.root));
  const up = others.length === 0 ? "No lab is up." : `Labs that are up: ${others.join(" ")}.`;
  throw new FleetError(
    "LAB_NOT_FOUND",
    `there is no lab ${name}. ${up} Bring it up: fairlead lab up --name ${name}`,
  );
}

export function writeState(layout: LabLayout, state: LabState): void {
  writeFileSync(`${layout.stateFile}.new`, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${layout.stateFile}.new`, layout.stateFile);
}

/** Names of the labs that have a folder. */
export function listLabs(stateRoot: string): readonly string[] {
  if (!existsSync(stateRoot)) return [];
  return readdirSync(stateRoot, { withFileTypes: true })
    .filter((it) => it.isDirectory())
    .map((it) => it.name)
    .toSorted();
}

/** The address blocks of every lab that has a state. */
export function blocksOfLabs(stateRoot: string): readonly string[] {
  return listLabs(stateRoot)
    .map((name) => readState(labLayout(stateRoot, name))?.topology.block)
    .flatMap((block) => (block === undefined ? [] : [block.v4, block.v6]));
}

/** Makes the folder in which labs are kept. @throws {FleetError} `LAB_UNSUPPORTED` where that is not allowed. */
export function makeStateRoot(stateRoot: string, mode = 0o755): void {
  try {
    mkdirSync(stateRoot, { recursive: true, mode });
    accessSync(stateRoot, constants.W_OK);
  } catch (cause) {
    throw new FleetError(
      "LAB_UNSUPPORTED",
      `labs are kept in ${stateRoot}, which cannot be written (${messageOf(cause)}). Set FAIRLEAD_STATE, or XDG_RUNTIME_DIR where you are not root, to a folder that you may write.`,
      { cause },
    );
  }
}

/** How long a command waits for another one that works on the same lab. Unit: milliseconds. */
const LOCK_PATIENCE_MS = 10_000;
const LOCK_PACE_MS = 50;

/**
 * Takes the lab's lock, which is released even if its process is killed; waits for some seconds while
 * another command has it. What was read of the lab before may be out of date.
 *
 * @throws {FleetError} `LAB_INVALID` when another command works on the lab for longer.
 */
export async function lockLab(
  stateRoot: string,
  name: string,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Disposable> {
  const deadlineMs = clock.monotonic() + LOCK_PATIENCE_MS;
  for (;;) {
    try {
      return tryLock(stateRoot, name);
    } catch (error) {
      if (!hasCode(error, "LAB_INVALID") || clock.monotonic() >= deadlineMs) throw error;
    }
    await delay(clock, LOCK_PACE_MS, signal);
  }
}

function tryLock(stateRoot: string, name: string): Disposable {
  makeStateRoot(stateRoot);
  const { lockFile } = labLayout(stateRoot, name);
  const mine = `${lockFile}.${process.pid}`;
  writeFileSync(mine, JSON.stringify({ pid: process.pid, startTicks: startTicksOf(process.pid) }));
  try {
    for (let attempt = 0; attempt < 3; attempt += 1) {
      try {
        linkSync(mine, lockFile);
        return { [Symbol.dispose]: () => rmSync(lockFile, { force: true }) };
      } catch {
        dropStaleLock(lockFile, name);
      }
    }
  } finally {
    rmSync(mine, { force: true });
  }
  throw new FleetError("LAB_INVALID", `cannot take the lock ${lockFile} of lab ${name}`);
}

function dropStaleLock(lockFile: string, name: string): void {
  let holder: { pid?: number; startTicks?: number };
  try {
    holder = JSON.parse(readFileSync(lockFile, "utf8")) as typeof holder;
  } catch {
    holder = {};
  }
  const isAlive = holder.pid !== undefined && startTicksOf(holder.pid) === holder.startTicks;
  if (isAlive) {
    throw new FleetError(
      "LAB_INVALID",
      `another command (process ${holder.pid}) works on lab ${name} right now. Try again when it is done.`,
    );
  }
  rmSync(lockFile, { force: true });
}
