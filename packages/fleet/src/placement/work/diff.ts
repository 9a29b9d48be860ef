import { defined } from "@fairlead/base/defined.ts";
import { isObject, own } from "@fairlead/base/json.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { PatchDetail } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { isSecret, withoutOwn } from "./manifest.ts";

/** Differences between an object in the member and what the hub wants, as a status shows them. */

/** Entries of one object, unless the apply strategy has another number. */
export const MAX_DETAILS = 100;
/** Longest value shown. Unit: characters. */
const MAX_VALUE = 2000;
const REDACTED = "(redacted for security reasons)";
const WHOLE_OBJECT = "(the whole object)";

/** Of an object that the member does not have. */
export const MISSING_OBJECT: readonly PatchDetail[] = [{ path: "/", valueInHub: WHOLE_OBJECT }];

/** At most `max` differences, in the order of the fields. Content of Secrets is not shown. */
export function diffObjects(inMember: KubeObject, inHub: KubeObject, max = MAX_DETAILS): PatchDetail[] {
  const details: PatchDetail[] = [];
  const isHidden = isSecret(inHub) || isSecret(inMember);
  collect(comparable(inMember), comparable(inHub), "", { details, isHidden, max });
  return details;
}

/** Has a copy of the object as a user of the member applied it, also of what is not there any more. */
const KUBECTL_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration";
const COMPARED_METADATA = ["name", "namespace", "labels", "annotations", "finalizers"] as const;

/** Without what the member's server, kubectl and the applier write. */
function comparable(object: KubeObject): Record<string, unknown> {
  const { status: _, metadata, ...rest } = object as KubeObject & { status?: unknown };
  const kept = Object.fromEntries(COMPARED_METADATA.map((key) => [key, metadata[key]]));
  const { [KUBECTL_ANNOTATION]: _copy, ...annotations } = metadata.annotations ?? {};
  return { ...rest, metadata: { ...kept, annotations: withoutOwn(annotations) } };
}

interface Found {
  readonly details: PatchDetail[];
  readonly isHidden: boolean;
  readonly max: number;
}

function collect(member: unknown, hub: unknown, path: string, found: Found): void {
  if (found.details.length >= found.max || Object.is(member, hub)) return;
  if (isObject(member) && isObject(hub)) {
    for (const key of new Set([...Object.keys(member), ...Object.keys(hub)]))
      collect(own(member, key), own(hub, key), `${path}/${escaped(key)}`, found);
  } else if (Array.isArray(member) && Array.isArray(hub)) {
    for (let at = 0; at < Math.max(member.length, hub.length); at += 1)
      collect(member[at], hub[at], `${path}/${at}`, found);
  } else if (!isEmpty(member) || !isEmpty(hub)) found.details.push(detail(path, member, hub, found));
}

function detail(path: string, member: unknown, hub: unknown, { isHidden }: Found): PatchDetail {
  const [valueInMember, valueInHub] = [member, hub].map((it) => shown(it, isHidden));
  return { path, ...defined({ valueInMember, valueInHub }) };
}

/** To a server, an empty map or list is as good as none. */
function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  return Array.isArray(value) ? value.length === 0 : isObject(value) && Object.keys(value).length === 0;
}

function shown(value: unknown, isHidden: boolean): string | undefined {
  if (value === undefined) return undefined;
  if (isHidden) return REDACTED;
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return text.length <= MAX_VALUE ? text : `${text.slice(0, MAX_VALUE)}… (${text.length} characters)`;
}

/** RFC 6901, section 3. */
function escaped(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}
