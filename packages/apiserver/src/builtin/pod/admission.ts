import type { WriteContext } from "#registry/types.ts";
import type { ApiObject, ObjectReader } from "#values/object.ts";
import { forbidden } from "#status.ts";
import { ensureFields, type Fields, fieldsAt, itemsAt, setDefault, textAt } from "@fairlead/base/fields.ts";
import { timestamp } from "#registry/metadata.ts";

/** The admission plugins ServiceAccount, DefaultTolerationSeconds and Priority for new pods. */

const PODS = { group: "", plural: "pods" };
const MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount";
/** A little more than an hour, by which kubelets recognize tokens that may be used longer. Unit: seconds. */
const TOKEN_LIFETIME = 3607;
/** How long a pod stays on a node that is not ready or not reachable. Unit: seconds. */
const TOLERATION = 300;
const DEFAULT_ACCOUNT = "default";
const MIRROR_ANNOTATION = "kubernetes.io/config.mirror";

/** Whether an admission plugin that belongs to pods is on. */
export type PodAdmission = (plugin: "ServiceAccount" | "DefaultTolerationSeconds" | "Priority") => boolean;

/** @throws {StatusError} 403 when the ServiceAccount or the PriorityClass does not exist. */
export function admitPod(pod: ApiObject, context: WriteContext, isEnabled: PodAdmission): void {
  const spec = ensureFields(pod, "spec");
  if (isEnabled("DefaultTolerationSeconds")) addTolerations(spec);
  if (isEnabled("Priority")) setPriority(pod, spec, context);
  if (!isEnabled("ServiceAccount")) return;
  if (pod.metadata.annotations?.[MIRROR_ANNOTATION] !== undefined) return;
  addServiceAccount(pod, spec, context);
}

/** Also at updates: clients that rebuild the spec do not know of them. */
export function addTolerations(spec: Fields): void {
  const present = itemsAt(spec, "tolerations");
  const missing = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].filter(
    (key) => !present.some((it) => toleratesNoExecute(it, key)),
  );
  if (missing.length === 0) return;
  const added = missing.map((key) => ({
    key,
    operator: "Exists",
    effect: "NoExecute",
    tolerationSeconds: TOLERATION,
  }));
  spec["tolerations"] = [...present, ...added];
}

/** An empty key or effect means all of them. */
function toleratesNoExecute(toleration: Fields, key: string): boolean {
  const isOfKey = ["", key].includes(textAt(toleration, "key"));
  return isOfKey && ["", "NoExecute"].includes(textAt(toleration, "effect"));
}

/** Classes that every cluster has. */
export const SYSTEM_PRIORITIES: Readonly<Record<string, number>> = {
  "system-cluster-critical": 2_000_000_000,
  "system-node-critical": 2_000_001_000,
};

function setPriority(pod: ApiObject, spec: Fields, { reader }: WriteContext): void {
  const name = textAt(spec, "priorityClassName");
  const classes = [...reader.list("scheduling.k8s.io", "priorityclasses")];
  const found = classes.find((it) =>
    name === "" ? it["globalDefault"] === true : it.metadata.name === name,
  );
  const system = Object.hasOwn(SYSTEM_PRIORITIES, name) ? SYSTEM_PRIORITIES[name] : undefined;
  if (name !== "" && found === undefined && system === undefined) {
    throw forbidden(PODS, pod.metadata.name, `no PriorityClass with name ${name} was found`);
  }
  if (name === "" && found !== undefined) spec["priorityClassName"] = found.metadata.name;
  const value = found?.["value"] ?? system;
  const policy = textAt(found, "preemptionPolicy") || "PreemptLowerPriority";
  decide(pod, { field: "priority", words: "integer value of priority", value: value ?? 0 });
  decide(pod, { field: "preemptionPolicy", words: "string value of PreemptionPolicy", value: policy });
}

interface Decision {
  readonly field: string;
  /** Upstream's, for the field. */
  readonly words: string;
  readonly value: unknown;
}

/** A pod has the priority of its class; it may only say the same. */
function decide(pod: ApiObject, { field, words, value }: Decision): void {
  const spec = ensureFields(pod, "spec");
  const asked = spec[field];
  spec[field] = value;
  if ([undefined, null, "", value].includes(asked)) return;
  const [said, computed] = [asked, value].map((it) => String(it as string | number));
  const why =
    `the ${words} (${said}) must not be provided in pod spec; ` +
    `priority admission controller computed ${computed} from the given PriorityClass name`;
  throw forbidden(PODS, pod.metadata.name, why);
}

/** Only the default one comes by itself, and to a namespace that stays. */
export function lacksServiceAccount(
  pod: ApiObject,
  namespace: string | undefined,
  reader: ObjectReader,
): boolean {
  const name = textAt(fieldsAt(pod, "spec"), "serviceAccountName") || DEFAULT_ACCOUNT;
  if (namespace === undefined || name !== DEFAULT_ACCOUNT) return false;
  const owner = reader.get("", "namespaces", undefined, namespace);
  if (owner === undefined || owner.metadata.deletionTimestamp !== undefined) return false;
  return reader.get("", "serviceaccounts", namespace, name) === undefined;
}

function addServiceAccount(pod: ApiObject, spec: Fields, { reader }: WriteContext): void {
  setDefault(spec, "serviceAccountName", DEFAULT_ACCOUNT);
  const name = textAt(spec, "serviceAccountName");
  spec["serviceAccount"] = name;
  const { namespace = "" } = pod.metadata;
  const account = reader.get("", "serviceaccounts", namespace, name);
  if (account === undefined) {
    const why = `error looking up service account ${namespace}/${name}: serviceaccount "${name}" not found`;
    throw forbidden(PODS, pod.metadata.name, why);
  }
  const pullSecrets = itemsAt(account, "imagePullSecrets");
  if (itemsAt(spec, "imagePullSecrets").length === 0 && pullSecrets.length > 0) {
    spec["imagePullSecrets"] = pullSecrets.map((it) => ({ name: it["name"] }));
  }
  const isWanted = spec["automountServiceAccountToken"] ?? account["automountServiceAccountToken"] ?? true;
  if (isWanted === true) mountToken(pod, spec);
}

/** Token, CA and namespace as files in every container that has nothing else at that place. */
function mountToken(pod: ApiObject, spec: Fields): void {
  const containers = [...itemsAt(spec, "initContainers"), ...itemsAt(spec, "containers")];
  const bare = containers.filter(
    (it) => !itemsAt(it, "volumeMounts").some((mount) => mount["mountPath"] === MOUNT_PATH),
  );
  if (bare.length === 0) return;
  const name = `kube-api-access-${suffixOf(pod.metadata.uid ?? "")}`;
  for (const container of bare) {
    const mounts = itemsAt(container, "volumeMounts");
    container["volumeMounts"] = [...mounts, { name, readOnly: true, mountPath: MOUNT_PATH }];
  }
  spec["volumes"] = [...itemsAt(spec, "volumes"), tokenVolume(name)];
}

function tokenVolume(name: string): Fields {
  const namespace = { path: "namespace", fieldRef: { apiVersion: "v1", fieldPath: "metadata.namespace" } };
  const sources = [
    { serviceAccountToken: { expirationSeconds: TOKEN_LIFETIME, path: "token" } },
    { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
    { downwardAPI: { items: [namespace] } },
  ];
  return { name, projected: { sources, defaultMode: 0o644 } };
}

const ALPHABET = "bcdfghjklmnpqrstvwxz2456789";

/** Five characters from the pod's uid, which is random already. */
function suffixOf(uid: string): string {
  let value = Number.parseInt(uid.replaceAll("-", "").slice(0, 12), 16) || 0;
  let suffix = "";
  for (let at = 0; at < 5; at++) {
    suffix += ALPHABET[value % ALPHABET.length] ?? "";
    value = Math.floor(value / ALPHABET.length);
  }
  return suffix;
}

/** The status of a pod that no controller has updated yet. */
export function newPodStatus(qosClass: string, condition: Fields | undefined): Fields {
  return { phase: "Pending", ...(condition === undefined ? {} : { conditions: [condition] }), qosClass };
}

/** Reports that a pod with scheduling gates is not scheduled (KEP-3521). */
export function gatedCondition(spec: Fields | undefined, nowMs: number): Fields | undefined {
  if (itemsAt(spec, "schedulingGates").length === 0) return undefined;
  return {
    type: "PodScheduled",
    status: "False",
    lastTransitionTime: timestamp(nowMs),
    reason: "SchedulingGated",
    message: "Scheduling is blocked due to non-empty scheduling gates",
  };
}
