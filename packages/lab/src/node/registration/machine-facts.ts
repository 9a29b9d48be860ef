import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { arch, availableParallelism, release, totalmem } from "node:os";

/** What a node offers and runs, read once at the start. */

export function readCapacity(): Readonly<Record<string, string>> {
  return {
    cpu: String(availableParallelism()),
    memory: `${Math.floor(totalmem() / 1024)}Ki`,
    "ephemeral-storage": `${Math.floor(totalmem() / 2048)}Ki`,
    pods: "110",
  };
}

/** File in the folder of a node with the id of its last boot. Absent: the node has booted with the machine. */
export const BOOT_ID = "boot-id";

export interface NodeMachine {
  readonly nodeName: string;
  /** Of Kubernetes, whose behaviour the kubelet follows. */
  readonly version: string;
  /** Folder of the node's state. */
  readonly dataDir: string;
}

export function readNodeInfo({ nodeName, version, dataDir }: NodeMachine): Readonly<Record<string, string>> {
  const machineId = readText("/etc/machine-id");
  const osRelease = readText("/etc/os-release");
  return {
    machineID: machineId,
    // The names distinguish nodes of one machine.
    systemUUID: `${machineId}-${nodeName}`,
    bootID: readText(join(dataDir, BOOT_ID)) || readText("/proc/sys/kernel/random/boot_id"),
    kernelVersion: release(),
    osImage: /^PRETTY_NAME="?([^"\n]*)/m.exec(osRelease)?.[1] ?? "Linux",
    containerRuntimeVersion: "fairlead://0.1.0",
    kubeletVersion: version,
    kubeProxyVersion: "",
    operatingSystem: "linux",
    architecture: GO_ARCH[arch()] ?? arch(),
  };
}

/** Kubernetes names architectures as Go does. */
const GO_ARCH: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

function readText(path: string): string {
  return existsSync(path) ? readFileSync(path, "utf8").trim() : "";
}
