import { posix } from "node:path";
import type { FieldError } from "#status.ts";
import { invalid } from "#values/field-errors.ts";

/** Paths inside of volumes. Source: k8s.io/kubernetes, pkg/apis/core/validation. */

export function withoutBacksteps(path: string, field: string): FieldError[] {
  return path.split("/").includes("..") ? [invalid(field, path, "must not contain '..'")] : [];
}

/** A path that leads down from where it starts. */
export function descendingPath(path: string, field: string): FieldError[] {
  const errors = posix.isAbsolute(path) ? [invalid(field, path, "must be a relative path")] : [];
  return [...errors, ...withoutBacksteps(path, field)];
}

/** As `descendingPath`; names that begin with ".." are the kubelet's. */
export function freePath(path: string, field: string): FieldError[] {
  const errors = descendingPath(path, field);
  if (path.startsWith("..") && !path.startsWith("../")) {
    errors.push(invalid(field, path, "must not start with '..'"));
  }
  return errors;
}
