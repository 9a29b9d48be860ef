import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { type Ages, renderAges } from "#domain/ages.ts";
import { allowedExporters, allowedImporters, type Members } from "#domain/audience.ts";
import { mailboxName } from "#api/fairlead.dev/cluster-names.ts";
import { type Claim, renderClaims } from "#domain/claim.ts";
import {
  ACCEPTED,
  EXPORTED_SINCE_ANNOTATION,
  MCS_CONFLICT,
  SERVICE_NAMESPACE_LABEL,
  TRAFFIC,
} from "#api/fairlead.dev/names.ts";
import { RELEASED_AT_ANNOTATION } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { IMPORTED_SERVICES, type ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { keyOf, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { ServiceKey } from "#domain/keys.ts";
import {
  clusterOfMailbox,
  FINALIZERS,
  isViewNamespace,
  mailboxOf,
  SERVICE_IN_USE_BY_ANNOTATION,
} from "#api/networking.fleet.azure.com/names.ts";
import {
  FLEET_SERVICE_IMPORTS,
  type FleetServiceImport,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { writeConditions } from "@fairlead/kube/objects/write-conditions.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { addFinalizer, isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { currentMembers, type HubInformers, serviceOfImported } from "../informers.ts";
import { isLegacyMember, isViewRead, readsView } from "../view.ts";
import { type Exporters, planService, sameStatus, type ServicePlan } from "./plan.ts";

export interface ServicesDeps {
  readonly client: KubeClient;
  readonly informers: HubInformers;
  readonly events: EventRecorder;
  readonly deps: RuntimeDeps;
}

const OUR_CONDITIONS = new Set(["Conflict", MCS_CONFLICT, ACCEPTED, TRAFFIC]);

/** The members that may import the services of a namespace. */
export function allowedIn(informers: HubInformers, namespace: string): readonly string[] | undefined {
  return allowedImporters(informers.namespaces.store.get(objectKey(undefined, namespace)));
}

/** The members whose exports of a namespace count. */
export function exportersIn(informers: HubInformers, namespace: string): Exporters {
  const object = informers.namespaces.store.get(objectKey(undefined, namespace));
  return { members: currentMembers(informers), exporters: allowedExporters(object) };
}

/** Reconciles one service, "namespace/name": reads its exports and imports, plans, and writes what differs. */
export function serviceReconciler(parts: ServicesDeps) {
  return async function reconcile(key: ServiceKey, signal: AbortSignal): Promise<void> {
    const { informers } = parts;
    const plan = planOf(informers, key);
    const pass = new Pass(parts, key, signal);
    await pass.writeServiceImport(plan, informers.serviceImports.store.get(key));
    await pass.writeExportConditions(plan);
    await pass.writeImportStatuses(plan);
    await pass.writeImportedServices(plan, currentMembers(informers));
  };
}

/** The plan of a service, by what the hub knows now. */
export function planOf(informers: HubInformers, key: ServiceKey): ServicePlan {
  const { namespace = "" } = splitKey(key);
  return planService({
    ...exportersIn(informers, namespace),
    exports: [...informers.exports.store.byIndex("service", key)],
    imports: [...informers.imports.store.byIndex("service", key)],
    serviceImport: informers.serviceImports.store.get(key),
    allowed: allowedIn(informers, namespace),
    networkOf: (cluster) => informers.viewOf(cluster),
    isLegacy: (cluster) => isLegacyMember(informers, cluster),
  });
}

type ImportedSpec = Omit<ImportedService["spec"], "service">;

class Pass {
  readonly #parts: ServicesDeps;
  readonly #key: ServiceKey;
  readonly #signal: AbortSignal;
  readonly #namespace: string;
  readonly #name: string;

  constructor(parts: ServicesDeps, key: ServiceKey, signal: AbortSignal) {
    this.#parts = parts;
    this.#key = key;
    this.#signal = signal;
    const { namespace, name } = splitKey(key);
    this.#namespace = namespace ?? "";
    this.#name = name;
  }

  async writeServiceImport(plan: ServicePlan, current: FleetServiceImport | undefined): Promise<void> {
    const { client } = this.#parts;
    const signal = this.#signal;
    if (plan.status === undefined) {
      if (current === undefined) return;
      await this.#writeClaims(current, []);
      if (!isDeleting(current)) await client.delete(FLEET_SERVICE_IMPORTS, this.#key, { signal });
      return;
    }
    if (current !== undefined && isDeleting(current)) {
      // It was deleted although the service is exported: release it, the next reconcile creates it again.
      await this.#writeClaims(current, []);
      return;
    }
    const present = current ?? (await this.#createServiceImport(plan.ages));
    const claimed = await this.#writeClaims(present, plan.claims, plan.ages);
    if (sameStatus(claimed.status, plan.status)) return;
    await applyIfChanged(client, FLEET_SERVICE_IMPORTS, {
      current: claimed,
      desired: { metadata: { namespace: this.#namespace, name: this.#name }, status: plan.status },
      fieldManager: HUB_MANAGER,
      subresource: "status",
      signal,
    });
  }

  async #createServiceImport(ages: Ages): Promise<FleetServiceImport> {
    const { client, informers, events } = this.#parts;
    const signal = this.#signal;
    const annotations = { [EXPORTED_SINCE_ANNOTATION]: renderAges(ages) };
    const object = { metadata: { namespace: this.#namespace, name: this.#name, annotations } };
    const isMissing = informers.namespaces.store.get(objectKey(undefined, this.#namespace)) === undefined;
    const isMade = isMissing && (await this.#createNamespace());
    try {
      const created = await client.create(FLEET_SERVICE_IMPORTS, object, {
        signal,
        fieldManager: HUB_MANAGER,
      });
      if (isMade)
        events.record(FLEET_SERVICE_IMPORTS, created, {
          type: "Normal",
          reason: "NamespaceCreated",
          message: `namespace ${this.#namespace} did not exist on the hub and was created`,
        });
      return created;
    } catch (error) {
      if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
      // Just created: the next reconcile finds it in the store.
      throw new FleetError("API_CONFLICT", `ServiceImport ${this.#key} was created concurrently`, {
        cause: error,
      });
    }
  }

  /** @returns Whether it was made: it is there where it cannot be seen, and stays away where none may be made. */
  async #createNamespace(): Promise<boolean> {
    const { client, deps } = this.#parts;
    try {
      await client.create(NAMESPACES, { metadata: { name: this.#namespace } }, { signal: this.#signal });
      deps.log.info("created the namespace of an exported service", { namespace: this.#namespace });
      return true;
    } catch (error) {
      if (!hasCode(error, "API_ALREADY_EXISTS", "API_FORBIDDEN")) throw error;
      return false;
    }
  }

  /**
   * The claims and their finalizer change together, and with them since when the exporters are known.
   *
   * @param ages - Undefined: as they are.
   */
  async #writeClaims(
    current: FleetServiceImport,
    claims: readonly Claim[],
    ages?: Ages,
  ): Promise<FleetServiceImport> {
    const annotation = current.metadata.annotations?.[SERVICE_IN_USE_BY_ANNOTATION];
    const before = current.metadata.finalizers ?? [];
    const others = before.filter((it) => it !== FINALIZERS.serviceImport);
    const isHeld = before.length !== others.length;
    const wanted = renderClaims(claims);
    const since = current.metadata.annotations?.[EXPORTED_SINCE_ANNOTATION];
    const wantedSince = ages === undefined ? since : renderAges(ages);
    if (annotation === wanted && isHeld === (wanted !== undefined) && since === wantedSince) return current;
    const { uid, resourceVersion } = current.metadata;
    const finalizers = wanted === undefined ? others : [...others, FINALIZERS.serviceImport];
    const annotations = {
      [SERVICE_IN_USE_BY_ANNOTATION]: wanted ?? null,
      [EXPORTED_SINCE_ANNOTATION]: wantedSince ?? null,
    };
    const metadata = { uid, resourceVersion, finalizers, annotations };
    return this.#parts.client.mergePatch(
      FLEET_SERVICE_IMPORTS,
      this.#key,
      { metadata },
      { signal: this.#signal },
    );
  }

  async writeExportConditions(plan: ServicePlan): Promise<void> {
    const { client, informers, deps } = this.#parts;
    const signal = this.#signal;
    for (const { object, conditions } of plan.exports)
      await writeConditions(client, INTERNAL_SERVICE_EXPORTS, {
        object,
        own: OUR_CONDITIONS,
        next: conditions,
        fieldManager: HUB_MANAGER,
        clock: deps.clock,
        signal,
      });
    // Legacy agents and hubs leave a finalizer. Fairlead needs none, because it is level-driven.
    for (const object of informers.exports.store.byIndex("service", this.#key))
      if (isDeleting(object))
        await removeFinalizer(client, INTERNAL_SERVICE_EXPORTS, object, {
          finalizer: FINALIZERS.internalServiceExport,
          signal,
        });
  }

  async writeImportStatuses(plan: ServicePlan): Promise<void> {
    const { client } = this.#parts;
    const signal = this.#signal;
    const finalizer = FINALIZERS.internalServiceImport;
    for (const { object, holdsClaim, status } of plan.importStatuses) {
      const present = holdsClaim
        ? await addFinalizer(client, INTERNAL_SERVICE_IMPORTS, object, { finalizer, signal })
        : object;
      if (!sameStatus(present.status, status))
        await applyIfChanged(client, INTERNAL_SERVICE_IMPORTS, {
          current: present,
          desired: { metadata: meta(object), status },
          fieldManager: HUB_MANAGER,
          subresource: "status",
          signal,
        }).catch(ignoreNotFound);
      if (!holdsClaim) await removeFinalizer(client, INTERNAL_SERVICE_IMPORTS, object, { finalizer, signal });
    }
  }

  /** The service as members of one network see it: once in their view, and in the mailboxes of those that do not read it. */
  async writeImportedServices(plan: ServicePlan, members: Members): Promise<void> {
    const { client, informers } = this.#parts;
    const signal = this.#signal;
    const name = mailboxName(this.#namespace, this.#name);
    const specs = this.#importedSpecs(plan, members);
    const service = { namespace: this.#namespace, name: this.#name };
    await Promise.all(
      [...specs].map(async ([namespace, spec]) => {
        const current = informers.importedServices.store.get(objectKey(namespace, name));
        if (current !== undefined && serviceOfImported(current) !== this.#key)
          throw new FleetError("API_CONFLICT", `${namespace}/${name} belongs to another service`);
        // By which members choose what they read of the view.
        const labels = isViewNamespace(namespace)
          ? { labels: { [SERVICE_NAMESPACE_LABEL]: this.#namespace } }
          : {};
        await applyIfChanged(client, IMPORTED_SERVICES, {
          current,
          desired: { metadata: { namespace, name, ...labels }, spec: { service, ...spec } },
          fieldManager: HUB_MANAGER,
          events: this.#parts.events,
          signal,
        });
      }),
    );
    // After the new ones are there: a member that moves from one to the other must not be without.
    for (const object of informers.importedServices.store.byIndex("service", this.#key))
      if (!specs.has(object.metadata.namespace ?? "") || object.metadata.name !== name)
        await client.delete(IMPORTED_SERVICES, keyOf(object), { signal });
  }

  /** Of parallel networks alone. */
  #vipsIn(view: string, { type }: ImportedSpec): Pick<ImportedSpec, "vips"> {
    const { virtualIPs } = this.#parts.informers;
    const name = mailboxName(this.#namespace, this.#name);
    const found = type === "ClusterSetIP" ? virtualIPs.store.get(objectKey(view, name)) : undefined;
    // The addresses of a network that is flat now, or of a service that was not exported, are only kept from others.
    const isReleased = found?.metadata.annotations?.[RELEASED_AT_ANNOTATION] !== undefined;
    return found === undefined || isReleased ? {} : { vips: [found.spec.ipv4, found.spec.ipv6] };
  }

  /** By namespace. */
  #importedSpecs({ audiences }: ServicePlan, members: Members): Map<string, ImportedSpec> {
    const { informers } = this.#parts;
    const specs = new Map<string, ImportedSpec>();
    const shown = (spec: ImportedSpec, view: string): ImportedSpec => ({
      ...spec,
      ...this.#vipsIn(view, spec),
    });
    for (const [view, { everyone }] of audiences)
      if (everyone !== undefined && isViewRead(informers, view)) specs.set(view, shown(everyone, view));
    for (const member of reportersOf(informers, this.#namespace, members)) {
      const view = informers.viewOf(member);
      const { everyone, special } = audiences.get(view) ?? {};
      const spec = special?.get(member) ?? (readsView(informers, member) ? undefined : everyone);
      if (spec !== undefined) specs.set(mailboxOf(member), shown(spec, view));
    }
    return specs;
  }
}

/** Members that asked for the services of a namespace. */
export function reportersOf(informers: HubInformers, namespace: string, members: Members): string[] {
  return [...informers.reports.store.byIndex("namespace", namespace)].flatMap((report) => {
    const cluster = clusterOfMailbox(report.metadata.namespace);
    return cluster !== undefined && report.metadata.name === cluster && members.has(cluster) ? [cluster] : [];
  });
}

function meta(object: { metadata: { namespace?: string; name: string } }): {
  namespace: string;
  name: string;
} {
  return { namespace: object.metadata.namespace ?? "", name: object.metadata.name };
}
