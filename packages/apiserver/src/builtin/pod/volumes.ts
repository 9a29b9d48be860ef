import { subdomainProblems } from "#values/names.ts";
import type { FieldError } from "#status.ts";
import { duplicate, invalid, notAllowed, required, tooLong } from "#values/field-errors.ts";
import { type Fields, fieldsAt, itemsAt, numberAt, stringAt, textAt } from "@fairlead/base/fields.ts";
import { dnsLabel } from "../names.ts";
import { parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import { all, choice, each, fields, filled, number, oneOf, present, type Rule, whole } from "../rules.ts";
import { claimSpec } from "../storage/claim-spec.ts";
import { downwardItem } from "./environment.ts";
import { freePath, withoutBacksteps } from "./paths.ts";

/** Volumes of pods. Source: k8s.io/kubernetes, pkg/apis/core/validation, `validateVolumeSource`. */

const fileMode = present(
  number((it) => it >= 0 && it <= 0o777, "must be a number between 0 and 0777 (octal), both inclusive"),
);
const noBacksteps: Rule = (value, path) => withoutBacksteps(typeof value === "string" ? value : "", path);
const localPath: Rule = (value, path) => freePath(typeof value === "string" ? value : "", path);
const keyToPath: Rule = fields({ key: filled(), path: all(filled(), localPath), mode: fileMode });

const downwardFile: Rule = all(
  fields({ path: all(filled(), localPath) }),
  whole((of, path) => {
    const field = fieldsAt(of, "fieldRef");
    const resource = fieldsAt(of, "resourceFieldRef");
    if (field !== undefined) {
      const errors = downwardItem.field(field, `${path}.fieldRef`);
      if (resource === undefined) return errors;
      return [
        ...errors,
        invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"),
      ];
    }
    if (resource !== undefined) return downwardItem.resource(resource, `${path}.resourceFieldRef`);
    return [required(path, "one of fieldRef and resourceFieldRef is required")];
  }),
  fields({ mode: fileMode }),
);

/** Errors of items of a downward API volume are reported at the path of their list. */
const downwardFiles: Rule = whole((of, path) => itemsAt(of, "items").flatMap((it) => downwardFile(it, path)));

const MIN_TOKEN_SECONDS = 600;

const token: Rule = whole((of, path) => {
  const seconds = numberAt(of, "expirationSeconds") ?? 0;
  const at = `${path}.expirationSeconds`;
  if (seconds < MIN_TOKEN_SECONDS)
    return [invalid(at, seconds, "may not specify a duration less than 10 minutes")];
  return seconds > 2 ** 32
    ? [invalid(at, seconds, "may not specify a duration larger than 2^32 seconds")]
    : [];
});

const PROJECTIONS: Readonly<Record<string, Rule>> = {
  secret: fields({ name: filled(), items: each(keyToPath) }),
  configMap: fields({ name: filled(), items: each(keyToPath) }),
  downwardAPI: downwardFiles,
  serviceAccountToken: token,
};

/** Files of projected volumes come from several sources, and must not meet. */
const projected: Rule = all(
  fields({ defaultMode: fileMode }),
  whole((of, path) => {
    const paths = new Set<string>();
    return itemsAt(of, "sources").flatMap((source, at) => {
      const here = `${path}.sources[${at}]`;
      const kinds = Object.keys(source);
      const errors = kinds.flatMap((kind) => {
        const content = fieldsAt(source, kind) ?? {};
        return [
          ...(PROJECTIONS[kind]?.(content, `${here}.${kind}`) ?? []),
          ...(kind === "serviceAccountToken"
            ? all(filled(), localPath)(content["path"], `${path}.path`)
            : []),
          ...conflicts(content, kind, path, paths),
        ];
      });
      if (kinds.length > 1)
        errors.push(notAllowed(here, "may not specify more than 1 volume type per source"));
      return errors;
    });
  }),
);

function conflicts(content: Fields, kind: string, path: string, seen: Set<string>): FieldError[] {
  const items = kind === "serviceAccountToken" ? [content] : itemsAt(content, "items");
  return items.flatMap((it) => {
    const file = textAt(it, "path");
    if (file === "") return [];
    const subject = kind === "secret" || kind === "configMap" ? textAt(content, "name") : file;
    if (seen.has(file)) return [invalid(path, subject, "conflicting duplicate paths")];
    seen.add(file);
    return [];
  });
}

const HOST_PATH_TYPES = [
  "",
  "BlockDevice",
  "CharDevice",
  "Directory",
  "DirectoryOrCreate",
  "File",
  "FileOrCreate",
  "Socket",
];

export const hostPath: Rule = whole((of, path) => {
  if (textAt(of, "path") === "") return [required(`${path}.path`)];
  return fields({ path: noBacksteps, type: present(oneOf(...HOST_PATH_TYPES)) })(of, path);
});

export const nfs: Rule = all(
  fields({ server: filled(), path: filled() }),
  whole((of, path) => {
    const text = textAt(of, "path");
    return text.startsWith("/") ? [] : [invalid(`${path}.path`, text, "must be an absolute path")];
  }),
);

/** The name of a CSI driver. */
export const driverName: Rule = filled("", (value, path) => {
  const name = String(value);
  const problems = subdomainProblems(name.toLowerCase());
  return [
    ...(name.length > 63 ? [tooLong(path, 63)] : []),
    ...problems.map((it) => invalid(path, value, it)),
  ];
});

const emptyDir: Rule = whole((of, path) => {
  const size = parseQuantity(of["sizeLimit"]) ?? 0n;
  if (size >= 0n) return [];
  return [notAllowed(`${path}.sizeLimit`, "SizeLimit field must be a valid resource quantity")];
});

const pullPolicy = oneOf("Always", "IfNotPresent", "Never");

const SOURCES: Readonly<Record<string, Rule>> = {
  emptyDir,
  hostPath,
  secret: fields({ secretName: filled(), defaultMode: fileMode, items: each(keyToPath) }),
  nfs,
  persistentVolumeClaim: fields({ claimName: filled() }),
  downwardAPI: all(fields({ defaultMode: fileMode }), downwardFiles),
  configMap: fields({ name: filled(), defaultMode: fileMode, items: each(keyToPath) }),
  projected,
  csi: fields({ driver: driverName, nodePublishSecretRef: present(fields({ name: filled() })) }),
  ephemeral: fields({ volumeClaimTemplate: filled("", fields({ spec: claimSpec })) }),
  image: fields({ pullPolicy }),
};

const source: Rule = choice(
  {
    of: Object.keys(SOURCES),
    none: (path) => required(path, "must specify a volume type"),
    several: (path, field) => notAllowed(`${path}.${field}`, "may not specify more than 1 volume type"),
  },
  SOURCES,
);

/** Kinds of volumes that are served by drivers outside of Kubernetes: kept as they are. */
function isOther(volume: Fields): boolean {
  return Object.keys(volume).some((it) => it !== "name" && SOURCES[it] === undefined);
}

export interface Volumes {
  readonly errors: readonly FieldError[];
  /** Those that are right, by name. */
  readonly byName: ReadonlyMap<string, Fields>;
}

/** @param podName - Absent in templates, whose pods have names yet to be made. */
export function validateVolumes(list: readonly Fields[], path: string, podName: string | undefined): Volumes {
  const byName = new Map<string, Fields>();
  const errors = list.flatMap((volume, at): readonly FieldError[] => {
    const here = `${path}[${at}]`;
    const name = textAt(volume, "name");
    const own = [
      ...(isOther(volume) ? [] : source(volume, here)),
      ...imageReference(volume, `${here}.image`, podName),
      ...claimNames(volume, here, podName),
      ...filled("", dnsLabel)(name, `${here}.name`),
      ...(byName.has(name) ? [duplicate(`${here}.name`, name)] : []),
    ];
    if (own.length === 0) byName.set(name, volume);
    return own;
  });
  return { errors, byName };
}

/** Templates may leave the image open. */
function imageReference(volume: Fields, path: string, podName: string | undefined): readonly FieldError[] {
  const image = fieldsAt(volume, "image");
  return image === undefined || podName === undefined
    ? []
    : filled()(stringAt(image, "reference"), `${path}.reference`);
}

function claimNames(volume: Fields, path: string, podName: string | undefined): FieldError[] {
  const name = textAt(volume, "name");
  if (podName === undefined || podName === "" || name === "" || fieldsAt(volume, "ephemeral") === undefined)
    return [];
  const claim = `${podName}-${name}`;
  return subdomainProblems(claim).map((it) =>
    invalid(`${path}.name`, name, `PVC name ${JSON.stringify(claim)}: ${it}`),
  );
}
