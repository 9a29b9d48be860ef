import type { Clock } from "@fairlead/base/clock.ts";
import type { Logger } from "@fairlead/base/log.ts";
import type { Authorizer } from "#values/authorizer.ts";
import type { Catalog } from "#registry/catalog.ts";
import type { Store } from "#storage/store.ts";
import { AdmissionChain, type AdmissionPlugin } from "./chain.ts";
import { Conditions } from "./conditions.ts";
import { namespaceLifecycle } from "./namespace-lifecycle.ts";
import { defaultIngressClass, defaultStorageClass } from "./plugins/default-classes.ts";
import { limitRanger } from "./plugins/limit-ranger.ts";
import { podSecurity } from "./plugins/pod-security.ts";
import { ResourceQuotas } from "./plugins/resource-quota/plugin.ts";
import { BoundPolicies } from "./policy/policies.ts";
import { ValidatingPolicies } from "./policy/validating.ts";
import { WebhookClient } from "./webhook/client.ts";
import { Hooks } from "./webhook/hooks.ts";
import { MutatingWebhooks } from "./webhook/mutating.ts";
import type { ServiceResolver } from "./webhook/resolver.ts";
import { ValidatingWebhooks } from "./webhook/validating.ts";

export interface AdmissionOptions {
  readonly store: Store;
  readonly catalog: Catalog;
  readonly authorizer: Authorizer;
  readonly clock: Clock;
  readonly log: Logger;
  /** Where Services are reached from here. */
  readonly resolve: ServiceResolver;
  /** Which plugins are on. */
  readonly isEnabled: (plugin: string) => boolean;
}

export interface AdmissionPlugins extends Disposable {
  readonly admission: AdmissionChain;
  readonly client: WebhookClient;
}

/** The admission of a server: the plugins that are on by default, in the order of the real one (`AllOrderedPlugins`). */
export function admissionPlugins(options: AdmissionOptions): AdmissionPlugins {
  const { store, catalog, authorizer, clock, log, resolve, isEnabled } = options;
  const client = new WebhookClient({ resolve, clock, userAgent: "kube-apiserver-admission" });
  const services = { catalog, client, conditions: new Conditions(authorizer), log };
  const policies = new BoundPolicies(store, "validating");
  const plugins: readonly (readonly [name: string, AdmissionPlugin])[] = [
    ["NamespaceLifecycle", namespaceLifecycle],
    ["LimitRanger", limitRanger],
    ["PodSecurity", podSecurity],
    ["DefaultStorageClass", defaultStorageClass],
    ["DefaultIngressClass", defaultIngressClass],
    [
      "MutatingAdmissionWebhook",
      new MutatingWebhooks(new Hooks(store, "mutatingwebhookconfigurations"), services),
    ],
    ["ValidatingAdmissionPolicy", new ValidatingPolicies(policies, { store, catalog, authorizer })],
    [
      "ValidatingAdmissionWebhook",
      new ValidatingWebhooks(new Hooks(store, "validatingwebhookconfigurations"), services),
    ],
    ["ResourceQuota", new ResourceQuotas(store, catalog)],
  ];
  const enabled = plugins.filter(([name]) => isEnabled(name));
  const admission = new AdmissionChain(enabled.map(([, plugin]) => plugin));
  return { admission, client, [Symbol.dispose]: () => client[Symbol.dispose]() };
}
