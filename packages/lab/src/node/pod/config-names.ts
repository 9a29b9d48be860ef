import type { Container, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { projectionsOf, type TokenWish, tokenWish } from "./volumes.ts";

/** What else a pod needs from its API server before it can start. Pure. */

/** Names of ConfigMaps and Secrets that the pod's volumes and environment read. */
export interface ConfigNames {
  readonly configMaps: ReadonlySet<string>;
  readonly secrets: ReadonlySet<string>;
}

export function configNames(pod: Pod): ConfigNames {
  const projections = (pod.spec?.volumes ?? []).flatMap((it) => projectionsOf(it) ?? []);
  const containers = [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])];
  const references = containers.flatMap(referencesOf);
  return {
    configMaps: namesIn([...projections, ...references].map((it) => it.configMap)),
    secrets: namesIn([...projections, ...references].map((it) => it.secret)),
  };
}

interface Reference {
  readonly configMap?: { readonly name?: string } | undefined;
  readonly secret?: { readonly name?: string } | undefined;
}

function referencesOf(container: Container): readonly Reference[] {
  return [
    ...(container.envFrom ?? []).map((it) => ({ configMap: it.configMapRef, secret: it.secretRef })),
    ...(container.env ?? []).map(({ valueFrom }) => ({
      configMap: valueFrom?.configMapKeyRef,
      secret: valueFrom?.secretKeyRef,
    })),
  ];
}

function namesIn(references: readonly ({ readonly name?: string } | undefined)[]): ReadonlySet<string> {
  return new Set(references.map((it) => it?.name ?? "").filter((it) => it !== ""));
}

/** Tokens that the pod's volumes want. */
export function tokenWishes(pod: Pod): readonly TokenWish[] {
  return (pod.spec?.volumes ?? [])
    .flatMap((it) => it.projected?.sources ?? [])
    .flatMap((it) => (it.serviceAccountToken === undefined ? [] : [tokenWish(it.serviceAccountToken)]));
}
