import { defined } from "@fairlead/base/defined.ts";
import { parseExact } from "@fairlead/base/exact-json.ts";
import { isObject, jsonKey, own } from "@fairlead/base/json.ts";
import type { KubeObject, ManagedFieldsEntry, OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import { isApplied } from "@fairlead/kube/objects/apply.ts";
import type { Applied } from "@fairlead/kube/types.ts";
import {
  LAST_APPLIED_ANNOTATION,
  SPEC_HASH_ANNOTATION,
  WORK_MANAGER,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import { mergePatchOf, mergeThree } from "#placement/work/merge.ts";
import type { Manifest } from "#placement/work/manifest.ts";
import { isAppliedWork, ownerReferenceTo } from "#placement/work/ownership.ts";
import { keyOfTarget, laneOf, type Target, type WorkPass } from "./parts.ts";

/** Bound of all annotations of an object together (apimachinery, TotalAnnotationSizeLimitB). Unit: bytes. */
const MAX_ANNOTATION_BYTES = 256 * 1024;

/** Verbs of the requests, for messages. */
export type Verb = "get" | "create" | "patch" | "delete";

export interface Written {
  readonly object: KubeObject;
  /** A patch that the server found to change nothing: the same one need not be sent again. */
  readonly noop?: string | undefined;
  /** "put back": others had changed what was applied. "held": they have, and it is left so for now. */
  readonly drift?: "put back" | "held" | undefined;
}

export interface Write {
  readonly target: Target;
  /** As it is in the member; undefined if it has to be created. */
  readonly live: KubeObject | undefined;
  /** Owners that stay. */
  readonly owners: readonly OwnerReference[];
  /** See `Written`. */
  readonly noop: string | undefined;
  /** Others changed it since it was applied, and it is left so for now. */
  readonly isHeld: boolean;
  /** Called with the verb of each request before it is sent. */
  readonly onVerb: (verb: Verb) => void;
}

/** Brings the object to what the manifest says, by the strategy of the Work. No request if it says so already. */
export function write(pass: WorkPass, request: Write): Promise<Written> {
  const { live, target } = request;
  const isServerSide = pass.strategy.type === "ServerSideApply";
  if (isServerSide || !fitsAnnotations(target.manifest, live))
    return applyOnServer(pass, request, isServerSide);
  return live === undefined ? create(pass, request) : patch(pass, request, live);
}

function fitsAnnotations(manifest: Manifest, live: KubeObject | undefined): boolean {
  const all = { ...live?.metadata.annotations, ...annotated(manifest).metadata.annotations };
  let bytes = 0;
  for (const [key, value] of Object.entries(all))
    bytes += Buffer.byteLength(key) + Buffer.byteLength(JSON.stringify(value));
  return bytes <= MAX_ANNOTATION_BYTES;
}

/** The manifest with the annotations of a client-side apply. */
function annotated({ object, hash }: Manifest): KubeObject {
  const annotations = {
    ...object.metadata.annotations,
    [SPEC_HASH_ANNOTATION]: hash,
    [LAST_APPLIED_ANNOTATION]: JSON.stringify(object),
  };
  return { ...object, metadata: { ...object.metadata, annotations } };
}

async function create(pass: WorkPass, { target, onVerb }: Write): Promise<Written> {
  const { manifest, of } = target;
  const object = annotated(manifest);
  const metadata = { ...object.metadata, ownerReferences: [ownerReferenceTo(pass.owner)] };
  onVerb("create");
  const created = await pass.requests.write(laneOf(target), pass.signal, (signal) =>
    pass.session.local.create(of, { ...object, metadata }, { fieldManager: WORK_MANAGER, signal }),
  );
  return { object: created };
}

async function patch(pass: WorkPass, request: Write, live: KubeObject): Promise<Written> {
  const { target, owners, noop, onVerb } = request;
  const { manifest, of } = target;
  const merged = mergeThree(manifest.group, {
    original: lastApplied(live),
    modified: annotated(manifest),
    current: live,
  }) as KubeObject;
  const changes = mergePatchOf(live, withOwners(merged, owners));
  if (changes === undefined) return { object: live };
  const attempt = jsonKey([changes, valuesAt(changes, live)]);
  if (attempt === noop) return { object: live, noop };
  const isDrift = isDrifted(request, live);
  if (isDrift && request.isHeld) return { object: live, drift: "held" };
  const { resourceVersion } = live.metadata;
  const metadata = { ...(isObject(changes["metadata"]) ? changes["metadata"] : {}), resourceVersion };
  onVerb("patch");
  const patched = await pass.requests.write(laneOf(target), pass.signal, (signal) =>
    pass.session.local.mergePatch(
      of,
      keyOfTarget(target),
      { ...changes, metadata },
      {
        fieldManager: WORK_MANAGER,
        signal,
      },
    ),
  );
  if (patched.metadata.resourceVersion === resourceVersion) return { object: patched, noop: attempt };
  return { object: patched, drift: isDrift ? "put back" : undefined };
}

/** Whether the manifest as it is was applied before, and is not what the object says now. */
function isDrifted({ target, owners }: Write, live: KubeObject): boolean {
  const { annotations = {}, ownerReferences = [] } = live.metadata;
  return (
    annotations[SPEC_HASH_ANNOTATION] === target.manifest.hash && ownerReferences.length === owners.length
  );
}

/** Adds to the owners of an object, and changes nothing else. */
export function addOwners(
  pass: WorkPass,
  target: Target,
  { live, owners }: { readonly live: KubeObject; readonly owners: readonly OwnerReference[] },
): Promise<KubeObject> {
  const metadata = { ownerReferences: owners, resourceVersion: live.metadata.resourceVersion };
  return pass.requests.write(laneOf(target), pass.signal, (signal) =>
    pass.session.local.mergePatch(
      target.of,
      keyOfTarget(target),
      { metadata },
      {
        fieldManager: WORK_MANAGER,
        signal,
      },
    ),
  );
}

function withOwners(object: KubeObject, owners: readonly OwnerReference[]): KubeObject {
  return { ...object, metadata: { ...object.metadata, ownerReferences: [...owners] } };
}

/** What the last client-side apply set; undefined if none is known. */
function lastApplied({ metadata: { annotations = {} } }: KubeObject): unknown {
  try {
    return parseExact(annotations[LAST_APPLIED_ANNOTATION] ?? "null") ?? undefined;
  } catch {
    return undefined;
  }
}

/** The values of an object in the places that a merge patch names. */
function valuesAt(changes: unknown, value: unknown): unknown {
  if (!isObject(changes) || !isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(changes).map(([key, inner]) => [key, valuesAt(inner, own(value, key))]),
  );
}

async function applyOnServer(pass: WorkPass, request: Write, mayForce: boolean): Promise<Written> {
  const { target, live, onVerb } = request;
  const desired = desiredOnServer(target.manifest, request.owners);
  const current = live === undefined ? undefined : await asApplier(pass, request, live);
  if (current !== undefined && isApplied(current, desired, { fieldManager: WORK_MANAGER }))
    return { object: current };
  const isDrift = current !== undefined && isDrifted(request, current);
  if (isDrift && request.isHeld) return { object: current, drift: "held" };
  const force = mayForce && pass.strategy.serverSideApplyConfig?.force === true;
  const sent = pass.strategy.whenToApply === "IfNotDrifted" ? locked(desired, current) : desired;
  onVerb("patch");
  const applied = await pass.requests.write(laneOf(target), pass.signal, (signal) =>
    pass.session.local.apply(target.of, sent, { fieldManager: WORK_MANAGER, force, signal }),
  );
  return { object: applied, drift: isDrift ? "put back" : undefined };
}

function desiredOnServer({ object, hash }: Manifest, owners: readonly OwnerReference[]): Applied<KubeObject> {
  const annotations = { ...object.metadata.annotations, [SPEC_HASH_ANNOTATION]: hash };
  // With the AppliedWorks of other Works, which this manager has set as well.
  const ownerReferences = owners.filter(isAppliedWork);
  return { ...object, metadata: { ...object.metadata, annotations, ownerReferences } };
}

/** Fails if the object was changed since it was read. */
function locked(desired: Applied<KubeObject>, current: KubeObject | undefined): Applied<KubeObject> {
  const { resourceVersion } = current?.metadata ?? {};
  return { ...desired, metadata: { ...desired.metadata, ...defined({ resourceVersion }) } };
}

/**
 * What a client-side apply set belongs to an Update of this manager, with which a server-side apply would conflict: it is handed
 * over first.
 */
async function asApplier(pass: WorkPass, { target, onVerb }: Write, live: KubeObject): Promise<KubeObject> {
  const entries = live.metadata.managedFields ?? [];
  const isOld = (it: ManagedFieldsEntry): boolean =>
    it.manager === WORK_MANAGER && it.operation === "Update" && (it.subresource ?? "") === "";
  const old = entries.find(isOld);
  if (old === undefined) return live;
  const isNew = (it: ManagedFieldsEntry): boolean =>
    it.manager === WORK_MANAGER && it.operation === "Apply" && (it.subresource ?? "") === "";
  const fieldsV1 = united(entries.find(isNew)?.fieldsV1 ?? {}, old.fieldsV1 ?? {});
  const managedFields = [
    { ...old, operation: "Apply" as const, fieldsV1 },
    ...entries.filter((it) => !isOld(it) && !isNew(it)),
  ];
  const { resourceVersion } = live.metadata;
  onVerb("patch");
  return pass.requests.write(laneOf(target), pass.signal, (signal) =>
    pass.session.local.mergePatch(
      target.of,
      keyOfTarget(target),
      { metadata: { managedFields, resourceVersion } },
      {
        fieldManager: WORK_MANAGER,
        signal,
      },
    ),
  );
}

/** Sets of fields are maps of maps. */
function united(a: Record<string, unknown>, b: Record<string, unknown>): Record<string, unknown> {
  const all: Record<string, unknown> = { ...a };
  for (const [key, value] of Object.entries(b)) {
    const present = own(a, key);
    all[key] = isObject(present) && isObject(value) ? united(present, value) : value;
  }
  return all;
}
