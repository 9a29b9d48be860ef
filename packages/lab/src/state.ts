/** What is kept of a lab on disk, and the lock that keeps two commands from working on it at once. */

import {
  accessSync,
  constants,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { replaceFileSync } from "@fairlead/base/replace-file.ts";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import { type LabLayout, labLayout } from "./layout.ts";
import { startTicksOf } from "./processes.ts";
import type { LabTopology } from "./topology.ts";

export interface LabState {
  readonly topology: LabTopology;
  /** Whether the lab has its own tmpfs on its folder. */
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
    `cannot read ${layout.stateFile}: it is not the state of a lab; "fairlead lab down" removes the rest of the lab`,
  );
}

/** @throws {FleetError} `LAB_NOT_FOUND` */
export function requireState(layout: LabLayout, name: string): LabState {
  const state = readState(layout);
  if (state !== undefined) return state;
  const others = listLabs(dirname(layout.root));
  const up = others.length === 0 ? "no lab is up" : `labs that are up: ${others.join(" ")}`;
  throw new FleetError(
    "LAB_NOT_FOUND",
    `lab ${name} does not exist; ${up}; create it: fairlead lab up --name ${name}`,
  );
}

export function writeState(layout: LabLayout, state: LabState): void {
  replaceFileSync(layout.stateFile, `${JSON.stringify(state, null, 2)}\n`);
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
      `cannot write the folder of the labs, ${stateRoot}: ${messageOf(cause)}; set FAIRLEAD_STATE, or XDG_RUNTIME_DIR if you are not root, to a writable folder`,
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
  throw new FleetError("LAB_INVALID", `cannot lock lab ${name}: ${lockFile} is taken`);
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
      `cannot lock lab ${name}: another command (process ${holder.pid}) uses it; try again when that command has ended`,
    );
  }
  rmSync(lockFile, { force: true });
}
