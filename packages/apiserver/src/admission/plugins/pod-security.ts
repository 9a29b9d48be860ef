import { type Fields, fieldsAt, itemsAt, textAt } from "@fairlead/base/fields.ts";
import type { Attributes } from "#registry/admission.ts";
import type { ApiObject } from "#values/object.ts";
import { forbidden } from "#status.ts";
import type { AdmissionPlugin } from "../chain.ts";
import { validateNamespace } from "./pod-security-namespace.ts";
import { type Policy, policyFor, policyOf, PREFIX, strictness } from "./pod-security-policy.ts";
import { type PodLike, podLike, violations } from "./pod-security-checks.ts";

/**
 * PodSecurity (KEP-2579): what the labels `pod-security.kubernetes.io/*` of a namespace ask of its pods.
 * Source: k8s.io/pod-security-admission.
 */
export const podSecurity: AdmissionPlugin = {
  validate(attributes) {
    const { object, operation } = attributes;
    if (object === undefined || (operation !== "CREATE" && operation !== "UPDATE")) return;
    if (attributes.definition.group === "" && attributes.definition.plural === "namespaces") {
      validateNamespace(attributes);
      return;
    }
    const isPod = attributes.definition.group === "" && attributes.definition.plural === "pods";
    const pod = isPod ? podItself(attributes, object) : podOf(attributes);
    if (pod !== undefined) evaluate(attributes, pod, isPod);
  },
};

/** Undefined: nothing that matters changes. */
function podItself({ old, subresource }: Attributes, object: ApiObject): PodLike | undefined {
  if (subresource !== "" && subresource !== "ephemeralcontainers") return undefined;
  if (old !== undefined && !changesImages(object, old)) return undefined;
  return podLike(fieldsAt(object, "metadata"), fieldsAt(object, "spec") ?? {});
}

/** Where kinds that make pods have the template. */
const TEMPLATES: ReadonlyMap<string, readonly string[]> = new Map([
  ["/podtemplates", ["template"]],
  ["/replicationcontrollers", ["spec", "template"]],
  ["apps/replicasets", ["spec", "template"]],
  ["apps/deployments", ["spec", "template"]],
  ["apps/statefulsets", ["spec", "template"]],
  ["apps/daemonsets", ["spec", "template"]],
  ["batch/jobs", ["spec", "template"]],
  ["batch/cronjobs", ["spec", "jobTemplate", "spec", "template"]],
]);

function podOf({ definition, object, subresource }: Attributes): PodLike | undefined {
  if (subresource !== "") return undefined;
  const path = TEMPLATES.get(`${definition.group}/${definition.plural}`);
  if (path === undefined) return undefined;
  const template = path.reduce<Fields | undefined>((at, step) => fieldsAt(at, step), object);
  const spec = fieldsAt(template, "spec");
  return spec === undefined ? undefined : podLike(fieldsAt(template, "metadata"), spec);
}

/** Of the changes that a pod may see, only those of images and new containers matter. */
function changesImages(object: ApiObject, old: ApiObject): boolean {
  const imagesOf = (pod: ApiObject): string =>
    JSON.stringify(
      ["containers", "initContainers", "ephemeralContainers"].map((list) =>
        itemsAt(fieldsAt(pod, "spec"), list).map((it) => [textAt(it, "name"), textAt(it, "image")]),
      ),
    );
  return imagesOf(object) !== imagesOf(old);
}

/** The policy of `warn`; without its label, the enforced policy if that is stricter. */
function warningPolicy(namespace: ApiObject, enforce: Policy): Policy {
  const warn = policyOf(namespace, "warn");
  const labels = namespace.metadata.labels ?? {};
  const isStricter = strictness(enforce.level) > strictness(warn.level);
  if (!isStricter || labels[`${PREFIX}warn`] !== undefined) return warn;
  const version = labels[`${PREFIX}warn-version`];
  return version === undefined ? enforce : policyFor(enforce.level, version);
}

/** Pods are refused; what makes them is warned of. */
function evaluate(attributes: Attributes, pod: PodLike, isPod: boolean): void {
  const { reader, namespace, definition, name } = attributes;
  const owner = reader.get("", "namespaces", undefined, namespace);
  if (owner === undefined || owner.metadata.labels === undefined) return;
  const enforce = policyOf(owner, "enforce");
  const broken = isPod ? violations(enforce.level, pod) : undefined;
  if (broken !== undefined) {
    throw forbidden(definition, name, `violates PodSecurity ${JSON.stringify(enforce.text)}: ${broken}`);
  }
  const audit = policyOf(owner, "audit");
  const audited = violations(audit.level, pod);
  if (audited !== undefined) {
    const note = `would violate PodSecurity ${JSON.stringify(audit.text)}: ${audited}`;
    attributes.annotate("pod-security.kubernetes.io/audit-violations", note);
  }
  const warn = warningPolicy(owner, enforce);
  const warned = violations(warn.level, pod);
  if (warned !== undefined)
    attributes.warn(`would violate PodSecurity ${JSON.stringify(warn.text)}: ${warned}`);
}
