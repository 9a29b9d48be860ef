import { checkDnsLabel } from "../../registry/names.ts";
import type { FieldError } from "../../status.ts";
import { absent, duplicate, invalid, notAllowed, required } from "../field-errors.ts";
import { type Fields, fieldsAt, textAt } from "../fields.ts";

export function validateVolumes(volumes: readonly Fields[], path: string): FieldError[] {
  const names = new Set<string>();
  return volumes.flatMap((volume, index) => {
    const at = `${path}[${index}]`;
    const name = textAt(volume, "name");
    const errors: FieldError[] = [];
    const problem = name === "" ? undefined : checkDnsLabel(name);
    if (name === "") errors.push(required(`${at}.name`));
    if (problem !== undefined) errors.push(invalid(`${at}.name`, name, problem));
    if (names.has(name)) errors.push(duplicate(`${at}.name`, name));
    names.add(name);
    return [...errors, ...validateVolumeSource(volume, at)];
  });
}

/** Fields that the source of a volume of a kind must have. */
const SOURCE_FIELDS: Readonly<Record<string, string>> = {
  secret: "secretName",
  configMap: "name",
  hostPath: "path",
  persistentVolumeClaim: "claimName",
};

function validateVolumeSource(volume: Fields, path: string): FieldError[] {
  const sources = Object.keys(volume).filter((it) => it !== "name" && fieldsAt(volume, it) !== undefined);
  const [first, ...others] = sources;
  if (first === undefined) return [required(path, "must specify a volume type")];
  const errors = others.map((it) => notAllowed(`${path}.${it}`, "may not specify more than 1 volume type"));
  const field = Object.hasOwn(SOURCE_FIELDS, first) ? SOURCE_FIELDS[first] : undefined;
  if (field !== undefined && textAt(fieldsAt(volume, first), field) === "") {
    errors.push(required(`${path}.${first}.${field}`));
  }
  return errors;
}

/** Mounts name volumes of the pod, each at a place of its own. */
export function validateMounts(
  mounts: readonly Fields[],
  path: string,
  volumes: ReadonlySet<string>,
): FieldError[] {
  const places = new Set<string>();
  return mounts.flatMap((mount, index) => {
    const at = `${path}[${index}]`;
    const name = textAt(mount, "name");
    const place = textAt(mount, "mountPath");
    const errors: FieldError[] = [];
    if (name === "") errors.push(required(`${at}.name`));
    else if (!volumes.has(name)) errors.push(absent(`${at}.name`, name));
    if (place === "") errors.push(required(`${at}.mountPath`));
    else if (places.has(place)) errors.push(invalid(`${at}.mountPath`, place, "must be unique"));
    places.add(place);
    const subPath = textAt(mount, "subPath");
    if (subPath.startsWith("/")) errors.push(invalid(`${at}.subPath`, subPath, "must be a relative path"));
    if (subPath.split("/").includes(".."))
      errors.push(invalid(`${at}.subPath`, subPath, "must not contain '..'"));
    return errors;
  });
}
