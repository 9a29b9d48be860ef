import type { FieldError } from "#status.ts";
import { duplicate, invalid, required, tooLong } from "#values/field-errors.ts";
import { fieldsAt, itemsAt, stringAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import { all, between, each, fields, oneOf, optional, present, type Rule, whole } from "../rules.ts";
import { descendingPath } from "./paths.ts";

/** Security contexts of pods and containers. Source: k8s.io/kubernetes, pkg/apis/core/validation. */

const id = present(between(0, 2 ** 31 - 1));
const PROFILES = ["Localhost", "RuntimeDefault", "Unconfined"];

const seccompProfile: Rule = present(
  fields({ type: (value, path) => profileType(value, path, "seccompProfile") }),
  whole((of, path) => {
    const profile = stringAt(of, "localhostProfile");
    const at = `${path}.localhostProfile`;
    if (textAt(of, "type") !== "Localhost") {
      return profile === undefined ? [] : [invalid(at, of, "can only be set when seccomp type is Localhost")];
    }
    if (profile === undefined) return [required(at, "must be set when seccomp type is Localhost")];
    return descendingPath(profile, at);
  }),
);

function profileType(value: unknown, path: string, field: string): readonly FieldError[] {
  if (value === undefined || value === "") return [required(path, `type is required when ${field} is set`)];
  return oneOf(...PROFILES)(value, path);
}

/** Longest path that Linux takes, less one. Unit: bytes. */
const MAX_PROFILE_PATH = 4095;

const appArmorProfile: Rule = present(
  whole((of, path) => {
    const type = textAt(of, "type");
    const profile = stringAt(of, "localhostProfile");
    const at = `${path}.localhostProfile`;
    if (type !== "Localhost") {
      const isMisplaced = PROFILES.includes(type) && profile !== undefined;
      if (isMisplaced) return [invalid(at, profile, "can only be set when AppArmor type is Localhost")];
      return profileType(of["type"], `${path}.type`, "appArmorProfile");
    }
    if ((profile ?? "").trim() === "" && (profile ?? "") === "") {
      return [required(at, "must be set when AppArmor type is Localhost")];
    }
    const padded =
      profile?.trim() === profile ? [] : [invalid(at, profile, "must not be padded with whitespace")];
    return (profile ?? "").length > MAX_PROFILE_PATH ? [...padded, tooLong(at, MAX_PROFILE_PATH)] : padded;
  }),
);

const escalation: Rule = whole((of, path) => {
  if (of["allowPrivilegeEscalation"] !== false) return [];
  const conflicts = [
    ...(of["privileged"] === true ? ["`privileged` to true"] : []),
    ...stringsAt(fieldsAt(of, "capabilities"), "add")
      .filter((it) => it === "CAP_SYS_ADMIN")
      .map(() => "`capabilities.Add` CAP_SYS_ADMIN"),
  ];
  return conflicts.map((it) =>
    invalid(path, of, `cannot set \`allowPrivilegeEscalation\` to false and ${it}`),
  );
});

/** @param usesHostUsers - Whether the pod shares the user namespace of its node. */
export function containerSecurity(usesHostUsers: boolean): Rule {
  const unmasked: Rule = (value, path) => {
    if (value !== "Unmasked" || !usesHostUsers) return [];
    return [invalid(path, value, "`hostUsers` must be false to use `Unmasked`")];
  };
  return all(
    fields({
      runAsUser: id,
      runAsGroup: id,
      procMount: present(oneOf("Default", "Unmasked"), unmasked),
      seccompProfile,
    }),
    escalation,
    fields({ appArmorProfile }),
  );
}

const SYSCTL = /^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$/;
const SYSCTL_FORM =
  "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

const sysctls: Rule = (value, path) => {
  const seen = new Set<string>();
  return itemsAt({ value }, "value").flatMap((it, at) => {
    const name = textAt(it, "name");
    const here = `${path}[${at}].name`;
    const isNew = !seen.has(name);
    seen.add(name);
    if (name === "") return [required(here)];
    if (name.length > 253 || !SYSCTL.test(name)) return [invalid(here, name, SYSCTL_FORM)];
    return isNew ? [] : [duplicate(here, name)];
  });
};

export const podSecurity: Rule = fields({
  fsGroup: id,
  runAsUser: id,
  runAsGroup: id,
  supplementalGroups: each(between(0, 2 ** 31 - 1)),
  sysctls,
  fsGroupChangePolicy: present(oneOf("Always", "OnRootMismatch")),
  seccompProfile,
  appArmorProfile,
  supplementalGroupsPolicy: present(oneOf("Merge", "Strict")),
  seLinuxChangePolicy: optional(oneOf("MountOption", "Recursive")),
});
