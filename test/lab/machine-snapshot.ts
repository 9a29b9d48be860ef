/** What a lab could leave behind on a machine, as text to compare. */

import { readdirSync, readFileSync } from "node:fs";
import { exec } from "@fairlead/base/exec.ts";
import { findLabProcesses } from "@fairlead/lab/processes.ts";

export interface MachineSnapshot {
  readonly links: string;
  readonly routes: string;
  readonly rules: string;
  readonly nftables: string;
  readonly mounts: string;
  readonly namespaces: number;
  readonly files: string;
  readonly processes: readonly number[];
}

/** Folders in which a lab could leave files. */
const FOLDERS = ["/run", "/run/netns", "/tmp", "/var/run", "/etc/netns"];

/** `root` is the folder of the lab whose processes are looked for. */
export async function takeSnapshot(root: string): Promise<MachineSnapshot> {
  const print = async (...command: readonly [string, ...string[]]): Promise<string> => {
    const [program, ...args] = command;
    return (await exec(program, args, { allowFailure: true })).stdout;
  };
  const routes = [
    await print("ip", "-4", "route", "show", "table", "all"),
    await print("ip", "-6", "route", "show", "table", "all"),
  ];
  return {
    links: await print("ip", "-o", "link", "show"),
    routes: routes.join("\n").replaceAll(/ expires \S+/g, ""),
    rules: (await print("ip", "-4", "rule")) + (await print("ip", "-6", "rule")),
    nftables: await print("nft", "list", "ruleset"),
    mounts: readFileSync("/proc/self/mounts", "utf8"),
    namespaces: countNetworkNamespaces(),
    files: FOLDERS.map((folder) => `${folder}: ${listFolder(folder).join(" ")}`).join("\n"),
    processes: findLabProcesses(root),
  };
}

function listFolder(folder: string): readonly string[] {
  try {
    // Other programs of the machine come and go here; what a lab makes bears the product's name.
    return readdirSync(folder)
      .filter((it) => it.includes("fairlead") || it.includes("netns"))
      .toSorted();
  } catch {
    return [];
  }
}

function countNetworkNamespaces(): number {
  const seen = new Set<string>();
  for (const line of readFileSync("/proc/self/mountinfo", "utf8").split("\n")) {
    if (line.includes(" nsfs ")) seen.add(line.split(" ")[3] ?? "");
  }
  return seen.size;
}
