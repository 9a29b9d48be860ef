import { defined } from "@fairlead/base/defined.ts";
import { randomUUID } from "node:crypto";
import type { Clock } from "@fairlead/base/clock.ts";
import type { Logger } from "@fairlead/base/log.ts";
import type { MetricsRegistry } from "@fairlead/base/metrics.ts";
import type { Rng } from "@fairlead/base/rng.ts";
import type { ClusterPki } from "@fairlead/base/pki/cluster.ts";
import type { AuditOptions } from "#audit/log.ts";
import { ServiceAccountTokens } from "#auth/tokens.ts";
import { admissionPlugins } from "#admission/compose.ts";
import { endpointResolver, type ServiceResolver } from "#admission/webhook/resolver.ts";
import { RoleAggregation } from "#auth/aggregation.ts";
import { CertificateSigner } from "#auth/certificates/signer.ts";
import { type AuthenticationOptions, tokenSources } from "#auth/options.ts";
import { builtinResources } from "#catalog/builtin.ts";
import { AddressObjects } from "#builtin/service/address-objects.ts";
import type { ServiceAllocations } from "#builtin/service/allocations.ts";
import { CrdLifecycle } from "#crd/lifecycle.ts";
import { crdStrategy } from "#crd/strategy.ts";
import { RequestHandler } from "#http/handler.ts";
import type { HealthCheck } from "#http/health.ts";
import type { LoadLimits } from "#http/load.ts";
import type { ServerMeters } from "#http/meters.ts";
import { ResourceHandler } from "#http/resources.ts";
import { ChunkFrames } from "#http/watch-sink.ts";
import { revisionAwaiter } from "#http/revisions.ts";
import { KubeletTunnel } from "#http/tunnel.ts";
import { versionInfo } from "#http/version.ts";
import { Catalog } from "#registry/catalog.ts";
import { EventExpiry } from "#registry/event-expiry.ts";
import { Registry } from "#registry/registry.ts";
import { checkStored } from "#registry/stored-release.ts";
import { absentFields, type Minor, MINORS } from "#schema/releases.ts";
import type { Store } from "#storage/store.ts";
import { WatchHub } from "#watch/hub.ts";

export interface CoreOptions {
  readonly store: Store;
  readonly pki: ClusterPki;
  /** CIDRs of Service addresses. */
  readonly serviceRanges: readonly string[];
  /** Where webhooks' Services are reached. Default: at a ready endpoint, or their address. */
  readonly resolveService?: ServiceResolver | undefined;
  readonly authentication?: AuthenticationOptions | undefined;
  readonly limits?: LoadLimits | undefined;
  readonly audit?: AuditOptions | undefined;
  /** The release of Kubernetes whose fields are served. Default: the newest. */
  readonly release?: Minor | undefined;
  /** Admission plugins that are off, by the names that the real server has for them. */
  readonly disabledAdmissionPlugins?: readonly string[] | undefined;
  /** PEM of the authority of kubelets' serving certificates. Default: these are not checked. */
  readonly kubeletCa?: string | undefined;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
  readonly meters: ServerMeters;
}

/** Everything between the socket and the store. */
export interface Core extends Disposable {
  readonly registry: Registry;
  readonly handler: RequestHandler;
  readonly allocations: ServiceAllocations;
  /** Says that what every cluster has is in place. */
  markReady(): void;
  /** Says that the server is about to stop: it is no longer ready, and serves on. */
  announceStop(): void;
}

/** Puts the parts together over a store, and gives them what it holds. */
export function composeCore(options: CoreOptions): Core {
  const { store, pki, serviceRanges, resolveService, clock, rng, log } = options;
  const { authentication = {}, limits, audit, metrics, meters, release = MINORS[0] } = options;
  const { serviceAccountIssuer: issuer, apiAudiences: audiences, anonymous } = authentication;
  const serviceAccountTokens = new ServiceAccountTokens({
    privateKey: pki.serviceAccount.privateKey,
    ...defined({ issuer, audiences }),
  });
  const disabled = new Set(options.disabledAdmissionPlugins);
  const isEnabled = (plugin: string): boolean => !disabled.has(plugin);
  const builtins = builtinResources({
    serviceAccountTokens,
    tokenSources: tokenSources(authentication, serviceAccountTokens.audiences, log),
    ...defined({ anonymous }),
    serviceRanges,
    rootCa: pki.ca.cert,
    newUid: randomUUID,
    crdStrategy,
    podAdmission: isEnabled,
  });
  const { authenticator, authorizer, allocations } = builtins;
  const absent = absentFields(release);
  const catalog = new Catalog(
    absent === undefined ? builtins.resources : builtins.resources.map((it) => ({ ...it, absent })),
    builtins.reviews,
  );
  const resolve: ServiceResolver = (service) => resolver(service);
  const plugins = admissionPlugins({ store, catalog, authorizer, clock, log, resolve, isEnabled });
  const { admission } = plugins;
  const registry = new Registry({ store, catalog, rng, clock, newUid: randomUUID, admission });
  const resolver = resolveService ?? endpointResolver(registry.reader);
  const hub = new WatchHub(store, clock);
  const { kubeletCa: ca } = options;
  const tunnel = new KubeletTunnel(registry, { ...pki.kubeletClient, ...defined({ ca }) });
  const expiry = new EventExpiry(store, clock, () => registry.wake());
  const endWatches = hub.endAll.bind(hub);
  registry.addFollowUp(
    new CrdLifecycle({ store, catalog, deleter: registry.deleter, webhooks: plugins.client, endWatches }),
  );
  registry.addFollowUp(expiry);
  registry.addFollowUp(new AddressObjects({ store, allocations, newUid: randomUUID }));
  registry.addFollowUp(new RoleAggregation(store, authorizer));
  registry.addFollowUp(new CertificateSigner(store, pki.ca, log));
  if (absent !== undefined) checkStored(store, catalog, release);
  registry.replay();
  const awaitRevision = revisionAwaiter(store, clock);
  const frames = new ChunkFrames();
  const resources = new ResourceHandler({
    registry,
    store,
    hub,
    frames,
    clock,
    rng,
    awaitRevision,
    tunnel,
  });
  let isReady = false;
  let isStopping = false;
  const checks = (): readonly HealthCheck[] => [
    { name: "ping", holds: true },
    { name: "bootstrap", holds: isReady },
    // Without a journal the server still serves reads.
    { name: "journal", holds: store.journalHolds(), only: "readyz" },
    // While stopping, the server is alive but not ready: load balancers stop sending requests.
    { name: "shutdown", holds: !isStopping, only: "readyz" },
  ];
  const shared = { registry, resources, tunnel, authenticator, authorizer, serviceAccountTokens, clock, log };
  return {
    registry,
    allocations,
    handler: new RequestHandler({
      ...shared,
      serviceAccountKeysUrl: authentication.serviceAccountKeysUrl,
      health: { checks },
      version: versionInfo(release),
      metrics,
      meters,
      limits,
      audit,
    }),
    markReady() {
      isReady = true;
    },
    announceStop() {
      isStopping = true;
    },
    [Symbol.dispose]() {
      expiry[Symbol.dispose]();
      hub.endAll();
      tunnel.close();
      plugins[Symbol.dispose]();
    },
  };
}
