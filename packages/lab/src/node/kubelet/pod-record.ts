import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { replaceFileSync } from "@fairlead/base/replace-file.ts";
import { isObject } from "@fairlead/base/json.ts";

/** What a kubelet has to know of a pod that its API server may have forgotten: who it was, and what it holds. */
export interface PodRecord {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** The pod's own addresses; empty for a pod on its node's network. */
  readonly addresses: readonly string[];
}

const FILE = "pod.json";

/** Written before anything is made for the pod, so that nothing is ever left without an owner. */
export function writePodRecord(pods: string, record: PodRecord): void {
  const folder = join(pods, record.uid);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  replaceFileSync(join(folder, FILE), JSON.stringify(record));
}

/** All pods that have a folder; a folder without a readable record holds nothing and is named by its uid alone. */
export function readPodRecords(pods: string): readonly PodRecord[] {
  return readdirSync(pods).map((uid) => {
    const value = parseRecord(join(pods, uid, FILE));
    const addresses: unknown = value["addresses"];
    return {
      uid,
      namespace: typeof value["namespace"] === "string" ? value["namespace"] : "",
      name: typeof value["name"] === "string" ? value["name"] : uid,
      addresses: Array.isArray(addresses) ? addresses.map(String) : [],
    };
  });
}

function parseRecord(path: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}
