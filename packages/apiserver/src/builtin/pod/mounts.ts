import type { FieldError } from "#status.ts";
import { absent, invalid, notAllowed, notSupported, required } from "#values/field-errors.ts";
import { type Fields, fieldsAt, itemsAt, stringAt, textAt } from "@fairlead/base/fields.ts";
import { descendingPath, withoutBacksteps } from "./paths.ts";

/** Where containers see volumes. Source: k8s.io/kubernetes, pkg/apis/core/validation. */

type VolumesByName = ReadonlyMap<string, Fields>;

const PROPAGATIONS = ["Bidirectional", "HostToContainer", "None"];
const RECURSIVE = ["Disabled", "Enabled", "IfPossible"];

export function validateMounts(container: Fields, path: string, volumes: VolumesByName): FieldError[] {
  const seen = new Set<string>();
  const devices = namesAndPaths(itemsAt(container, "volumeDevices"), "devicePath");
  const isPrivileged = fieldsAt(container, "securityContext")?.["privileged"] === true;
  return itemsAt(container, "volumeMounts").flatMap((mount, index) => {
    const at = `${path}[${index}]`;
    const name = textAt(mount, "name");
    const mountPath = textAt(mount, "mountPath");
    const isSeen = seen.has(mountPath);
    seen.add(mountPath);
    return [
      ...(name === "" ? [required(`${at}.name`)] : []),
      ...(volumes.has(name) ? [] : [absent(`${at}.name`, name)]),
      ...(mountPath === "" ? [required(`${at}.mountPath`)] : []),
      ...(isSeen ? [invalid(`${at}.mountPath`, mountPath, "must be unique")] : []),
      ...(devices.names.has(name)
        ? [invalid(`${at}.name`, name, "must not already exist in volumeDevices")]
        : []),
      ...(devices.paths.has(mountPath)
        ? [invalid(`${at}.mountPath`, mountPath, "must not already exist as a path in volumeDevices")]
        : []),
      ...validateSubPaths(mount, at, path),
      // Upstream reports these at the list.
      ...validatePropagation(mount, `${path}.mountPropagation`, isPrivileged),
      ...validateRecursion(mount, `${path}.recursiveReadOnly`),
    ];
  });
}

function validateSubPaths(mount: Fields, at: string, list: string): FieldError[] {
  const plain = textAt(mount, "subPath");
  const expression = textAt(mount, "subPathExpr");
  const both = plain !== "" && expression !== "";
  return [
    ...descendingPath(plain, `${list}.subPath`),
    ...(both
      ? [invalid(`${at}.subPathExpr`, expression, "subPathExpr and subPath are mutually exclusive")]
      : []),
    ...descendingPath(expression, `${list}.subPathExpr`),
  ];
}

function validatePropagation(mount: Fields, path: string, isPrivileged: boolean): FieldError[] {
  const propagation = stringAt(mount, "mountPropagation");
  if (propagation === undefined) return [];
  if (!PROPAGATIONS.includes(propagation)) return [notSupported(path, propagation, PROPAGATIONS)];
  if (propagation !== "Bidirectional" || isPrivileged) return [];
  return [notAllowed(path, "Bidirectional mount propagation is available only to privileged containers")];
}

function validateRecursion(mount: Fields, path: string): FieldError[] {
  const mode = stringAt(mount, "recursiveReadOnly");
  if (mode === undefined || mode === "Disabled") return [];
  if (!RECURSIVE.includes(mode)) return [notSupported(path, mode, RECURSIVE)];
  const errors: FieldError[] = [];
  if (mount["readOnly"] !== true) {
    errors.push(notAllowed(path, "may only be specified when readOnly is true"));
  }
  if ((stringAt(mount, "mountPropagation") ?? "None") !== "None") {
    errors.push(notAllowed(path, "may only be specified when mountPropagation is None or not specified"));
  }
  return errors;
}

export function validateDevices(container: Fields, path: string, volumes: VolumesByName): FieldError[] {
  const names = new Set<string>();
  const paths = new Set<string>();
  const mounts = namesAndPaths(itemsAt(container, "volumeMounts"), "mountPath");
  return itemsAt(container, "volumeDevices").flatMap((device, index) => {
    const at = `${path}[${index}]`;
    const name = textAt(device, "name");
    const devicePath = textAt(device, "devicePath");
    const isNameSeen = names.has(name);
    const isPathSeen = paths.has(devicePath);
    const climbs = withoutBacksteps(devicePath, "").length > 0;
    if (name !== "") names.add(name);
    if (!climbs) paths.add(devicePath);
    return [
      ...(name === "" ? [required(`${at}.name`)] : []),
      ...(isNameSeen ? [invalid(`${at}.name`, name, "must be unique")] : []),
      ...validateBlock(volumes.get(name), name, `${at}.name`),
      ...(devicePath === "" ? [required(`${at}.devicePath`)] : []),
      ...(isPathSeen ? [invalid(`${at}.devicePath`, devicePath, "must be unique")] : []),
      ...(climbs ? [invalid(`${at}.devicePath`, devicePath, "can not contain backsteps ('..')")] : []),
      ...(mounts.names.has(name)
        ? [invalid(`${at}.name`, name, "must not already exist in volumeMounts")]
        : []),
      ...(mounts.paths.has(devicePath)
        ? [invalid(`${at}.devicePath`, devicePath, "must not already exist as a path in volumeMounts")]
        : []),
    ];
  });
}

function namesAndPaths(
  items: readonly Fields[],
  path: string,
): { names: ReadonlySet<string>; paths: ReadonlySet<string> } {
  const textsOf = (field: string): Set<string> => new Set(items.map((it) => textAt(it, field)));
  return { names: textsOf("name"), paths: textsOf(path) };
}

function validateBlock(volume: Fields | undefined, name: string, path: string): FieldError[] {
  if (volume === undefined) return [absent(path, name)];
  if (volume["persistentVolumeClaim"] !== undefined || volume["ephemeral"] !== undefined) return [];
  const detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
  return [invalid(path, name, detail)];
}
