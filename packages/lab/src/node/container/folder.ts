import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { isObject } from "@fairlead/base/json.ts";
import { parseStat, type ProcessIdentity } from "./process.ts";

/** The folder of one container: all that is known of it, for this kubelet and the next. */

/** Written when all else of the folder is: what {@link readRecord} reads. */
export const RECORD_FILE = "record.json";

/** Identity of a container. */
export interface ContainerId {
  readonly podUid: string;
  readonly name: string;
  /** 0 for the first run of the container in its pod, one more for each restart. */
  readonly attempt: number;
}

export interface ContainerRecord extends ContainerId {
  readonly image: string;
  readonly tty: boolean;
  readonly user: { readonly uid: number; readonly gid: number; readonly groups: readonly number[] };
  /** Where the termination message is empty and the program failed, the end of the log takes its place. */
  readonly fallsBackToLogs: boolean;
}

/** What the shim has written so far. */
export interface ShimReport {
  readonly holder: ProcessIdentity | undefined;
  /** Process 1 of the container; absent until its root was ready. */
  readonly process: ProcessIdentity | undefined;
  /** Unit: milliseconds since the Unix epoch. */
  readonly startedAtMs: number | undefined;
  /** The code is undefined if the exit was noticed but its code was lost. */
  readonly exit: { readonly code: number | undefined; readonly atMs: number } | undefined;
  /** Why the program could not be started. */
  readonly startError: { readonly text: string; readonly atMs: number } | undefined;
}

export function containerFolder(pods: string, { podUid, name, attempt }: ContainerId): string {
  return join(pods, podUid, "containers", name, String(attempt));
}

export function readShimReport(folder: string): ShimReport {
  const started = readTimed(join(folder, "process"));
  const exit = readTimed(join(folder, "exit"));
  const code = Number(exit?.text.trim());
  return {
    holder: identityIn(readTimed(join(folder, "holder"))),
    process: identityIn(started),
    startedAtMs: started?.atMs,
    exit:
      exit === undefined ? undefined : { code: Number.isInteger(code) ? code : undefined, atMs: exit.atMs },
    startError: readTimed(join(folder, "start-error")),
  };
}

/** The record that the kubelet wrote when it made the folder; undefined for a folder that was not finished. */
export function readRecord(folder: string): ContainerRecord | undefined {
  const text = readTimed(join(folder, RECORD_FILE))?.text;
  if (text === undefined) return undefined;
  const value: unknown = JSON.parse(text);
  if (!isObject(value) || typeof value["name"] !== "string" || typeof value["attempt"] !== "number")
    return undefined;
  return {
    podUid: String(value["podUid"]),
    name: value["name"],
    attempt: value["attempt"],
    image: String(value["image"]),
    tty: value["tty"] === true,
    user: readUser(value["user"]),
    fallsBackToLogs: value["fallsBackToLogs"] === true,
  };
}

function readUser(value: unknown): ContainerRecord["user"] {
  const { uid, gid, groups } = isObject(value) ? value : {};
  return {
    uid: Number(uid ?? 0),
    gid: Number(gid ?? 0),
    groups: Array.isArray(groups) ? groups.map(Number) : [],
  };
}

function identityIn(file: { readonly text: string } | undefined): ProcessIdentity | undefined {
  return file === undefined ? undefined : parseStat(file.text);
}

function readTimed(path: string): { readonly text: string; readonly atMs: number } | undefined {
  try {
    return { text: readFileSync(path, "utf8"), atMs: Math.floor(statSync(path).mtimeMs) };
  } catch (error) {
    if (Error.isError(error) && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR"))
      return undefined;
    throw error;
  }
}
