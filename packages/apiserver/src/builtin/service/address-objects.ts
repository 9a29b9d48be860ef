import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import { splitKey } from "@fairlead/kube/api/meta/key.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { familyOfText, formatAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { timestamp } from "#registry/metadata.ts";
import type { FollowUp } from "#registry/registry.ts";
import type { ApiObject } from "#values/object.ts";
import type { Store, StoreChange, Transaction } from "#storage/store.ts";
import { fieldsAt } from "@fairlead/base/fields.ts";
import type { ServiceAllocations } from "./allocations.ts";
import { clusterIpsOf } from "./shape.ts";

const SERVICES = "services";
const ADDRESSES = "ipaddresses.networking.k8s.io";
const MANAGED_BY = "ipaddress.kubernetes.io/managed-by";
const FAMILY = "ipaddress.kubernetes.io/ip-family";
const ALLOCATOR = "ipallocator.k8s.io";

/** The field manager of IPAddresses that are created here. */
const FIELDS = {
  "f:metadata": { "f:labels": { ".": {}, [`f:${FAMILY}`]: {}, [`f:${MANAGED_BY}`]: {} } },
  "f:spec": { "f:parentRef": { ".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {} } },
};

export interface AddressObjectsOptions {
  readonly store: Store;
  readonly allocations: ServiceAllocations;
  readonly newUid: () => string;
}

/**
 * Keeps an IPAddress for each address that a Service holds, in the transaction of the change of either (KEP-1880).
 * Source: k8s.io/kubernetes, pkg/registry/core/service/ipallocator, with controller/repairip.go.
 */
export class AddressObjects implements FollowUp {
  readonly #options: AddressObjectsOptions;
  /** Addresses in the form in which they are names. */
  readonly #due = new Set<string>();

  constructor(options: AddressObjectsOptions) {
    this.#options = options;
  }

  get isIdle(): boolean {
    return this.#due.size === 0;
  }

  observe({ table, key, before, after }: StoreChange): void {
    if (table.id === ADDRESSES) this.#due.add(key);
    if (table.id !== SERVICES) return;
    const [old, current] = [namesOf(before?.object), namesOf(after?.object)];
    if (sameJson(old, current)) return;
    for (const name of [...old, ...current]) this.#due.add(name);
  }

  collect(tx: Transaction, budget: number): void {
    let left = budget;
    for (const name of this.#due) {
      if (left === 0) return;
      left -= 1;
      this.#settle(tx, name);
      // The write itself makes it due again.
      this.#due.delete(name);
    }
  }

  #settle(tx: Transaction, name: string): void {
    const { store, allocations, newUid } = this.#options;
    const table = store.table(ADDRESSES);
    const found = table.get(name)?.object;
    const owner = allocations.ownerOf(name);
    if (owner === undefined) {
      // Addresses that others manage are theirs.
      if (found?.metadata.labels?.[MANAGED_BY] === ALLOCATOR) tx.remove(table, name);
      return;
    }
    const labels = { [FAMILY]: familyOfText(name) ?? "", [MANAGED_BY]: ALLOCATOR };
    const spec = { parentRef: { resource: SERVICES, ...splitKey(owner) } };
    const has = (wanted: Readonly<Record<string, string>>): boolean =>
      Object.entries(wanted).every(([label, value]) => found?.metadata.labels?.[label] === value);
    if (found !== undefined && has(labels) && sameJson(fieldsAt(found, "spec"), spec)) return;
    if (found !== undefined) tx.remove(table, name);
    const time = timestamp(tx.nowMs);
    const managedFields = [
      {
        manager: "kube-apiserver",
        operation: "Update",
        apiVersion: "networking.k8s.io/v1",
        time,
        fieldsType: "FieldsV1",
        fieldsV1: FIELDS,
      } as const,
    ];
    tx.put(table, name, {
      kind: "IPAddress",
      apiVersion: "networking.k8s.io/v1",
      metadata: { name, uid: newUid(), creationTimestamp: time, labels, managedFields },
      spec,
    });
  }
}

/** The cluster IPs of a Service in the form in which they are names of IPAddresses. */
function namesOf(service: (ApiObject & Service) | undefined): readonly string[] {
  return clusterIpsOf(service?.spec ?? {})
    .map(tryParseAddress)
    .filter((it) => it !== undefined)
    .map(formatAddress);
}
