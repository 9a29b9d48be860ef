import { join } from "node:path";
import type { Container, Volume, VolumeMount } from "@fairlead/kube/api/core/v1/types.ts";
import type { BindMount } from "../container/root.ts";
import { ConfigError } from "./environment.ts";
import { expandVariables } from "./expand.ts";

/** What of the pod's volumes a container mounts, and where. The volumes' folders exist already. */
export function volumeBinds(
  container: Container,
  volumes: readonly Volume[],
  folderOf: (volume: string) => string,
  env: ReadonlyMap<string, string>,
): readonly BindMount[] {
  return (container.volumeMounts ?? []).map((mount) => {
    const volume = volumes.find((it) => it.name === mount.name);
    if (volume === undefined) throw new ConfigError(`volume "${mount.name}" is not among the pod's volumes`);
    const { mountPath, readOnly } = mount;
    const subPath = subPathOf(mount, env);
    checkMountPath(mountPath);
    const folder = folderOf(mount.name);
    const isEmptyVolume = Object.keys(volume).every((key) => key === "name" || key === "emptyDir");
    return {
      source: folder,
      ...(subPath === "" ? {} : { subPath: { path: subPath, canCreate: isEmptyVolume } }),
      target: join("/", mountPath),
      // What the kubelet writes is not the container's to change.
      readOnly: readOnly === true || !isEmptyVolume,
    };
  });
}

/** `subPathExpr` may name variables of the container, all of which must be there. */
function subPathOf({ subPath = "", subPathExpr }: VolumeMount, env: ReadonlyMap<string, string>): string {
  if (subPathExpr === undefined || subPathExpr === "") return subPath;
  const missing: string[] = [];
  const expanded = expandVariables(subPathExpr, (name) => {
    if (!env.has(name)) missing.push(name);
    return env.get(name);
  });
  if (missing.length > 0)
    throw new ConfigError(`missing value for ${missing.map((it) => JSON.stringify(it)).join(", ")}`);
  return expanded;
}

function checkMountPath(path: string): void {
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  if (/^[^\u0000-\u001f:]+$/.test(path) && join("/", path) !== "/") return;
  throw new ConfigError(
    `mountPath ${JSON.stringify(path)} must not be "/" and must be without ":" and control characters`,
  );
}
