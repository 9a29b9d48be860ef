import { describe, expect, it } from "vitest";
import {
  type EndpointSlice,
  MANAGED_BY_LABEL,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { IndexedStore } from "@fairlead/kube/informer/store.ts";
import { GLOBAL_SLICE_SUFFIX } from "#api/fairlead.dev/cluster-names.ts";
import { GLOBAL_SERVICE_LABEL, GLOBAL_SLICE_MANAGER, MCS_SLICE_MANAGER } from "#api/fairlead.dev/names.ts";
import {
  MCS_SERVICE_NAME_LABEL,
  MCS_SOURCE_CLUSTER_LABEL,
} from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { balancerOfSlice, serviceOfImportedSlice, serviceOfLocalSlice } from "../informers.ts";
import type { Session } from "../session.ts";
import { RememberedSlices } from "./remembered.ts";

const HELLO = objectKey("work", "hello");

type More = Partial<Pick<EndpointSlice, "addressType">> & { readonly labels?: Record<string, string> };

function slice(
  name: string,
  addresses: readonly string[],
  { addressType = "IPv4", labels }: More = {},
): EndpointSlice {
  return {
    metadata: {
      namespace: "work",
      name,
      uid: name,
      resourceVersion: addresses.join(),
      ...(labels === undefined ? {} : { labels }),
    },
    addressType,
    endpoints: addresses.map((it) => ({ addresses: [it], conditions: { ready: true } })),
    ports: [{ name: "http", port: 80 }],
  };
}
/** Of cluster "a" next to an import, unless it says otherwise. */
const imported = (name: string, addresses: readonly string[], more: More = {}, from = "a"): EndpointSlice =>
  slice(name, addresses, {
    ...more,
    labels: {
      [MANAGED_BY_LABEL]: MCS_SLICE_MANAGER,
      [MCS_SERVICE_NAME_LABEL]: "hello",
      [MCS_SOURCE_CLUSTER_LABEL]: from,
      ...more.labels,
    },
  });

function remembering(...slices: readonly EndpointSlice[]) {
  const store = new IndexedStore<EndpointSlice>({
    service: serviceOfLocalSlice,
    importedService: serviceOfImportedSlice,
    balancer: balancerOfSlice,
  });
  for (const it of slices) store.set(it);
  const here = { slices: { store } } as unknown as Session["here"];
  const remembered = new RememberedSlices({ here, cluster: "own" });
  const changed = (name: string, ...dead: readonly string[]): string[] =>
    remembered
      .changed(objectKey(undefined, name), (_cluster, [address = ""]) => !dead.includes(address))
      .map(({ metadata, endpoints = [] }) => {
        const addresses = endpoints.flatMap((it) => it.addresses ?? []);
        return `${metadata.name}: ${addresses.join(" ")}`;
      });
  return { store, remembered, changed };
}

describe("the slices that a predecessor imported", () => {
  it("are not written while all of their endpoints answer", () => {
    const { changed } = remembering(imported("s", ["10.1.0.1", "10.1.0.2"]));
    expect(changed("s")).toEqual([]);
  });

  it("lose endpoints that do not answer while others of the service do, and get them back when they answer", () => {
    const { store, changed } = remembering(imported("s", ["10.1.0.1", "10.1.0.2"]));
    expect(changed("s", "10.1.0.1")).toEqual(["s: 10.1.0.2"]);
    store.set(imported("s", ["10.1.0.2"]));
    expect(changed("s", "10.1.0.1")).toEqual([]);
    expect(changed("s", "10.1.0.2")).toEqual(["s: 10.1.0.1"]);
    expect(changed("s")).toEqual(["s: 10.1.0.1 10.1.0.2"]);
  });

  it("keep the last endpoints of a service, in each family", () => {
    const v6 = imported("v6", ["fd00::1"], { addressType: "IPv6" });
    const { changed } = remembering(imported("s", ["10.1.0.1", "10.1.0.2"]), v6);
    expect(changed("s", "10.1.0.1", "10.1.0.2")).toEqual([]);
    expect(changed("v6", "fd00::1")).toEqual([]);
  });

  it("lose all endpoints of a cluster where another cluster serves, this one included", () => {
    const dead = ["10.1.0.1", "10.1.0.2"];
    const other = remembering(imported("s", dead), imported("t", ["10.2.0.1"], {}, "b"));
    expect(other.changed("s", ...dead)).toEqual(["s: "]);
    expect(other.changed("s", ...dead, "10.2.0.1")).toEqual([]);
    const own = remembering(imported("s", dead), imported("t", ["10.3.0.1"], {}, "own"));
    expect(own.changed("s", ...dead)).toEqual(["s: "]);
  });

  it("are those of global Services, too, whose own endpoints count", () => {
    const labels = {
      [MANAGED_BY_LABEL]: GLOBAL_SLICE_MANAGER,
      [GLOBAL_SERVICE_LABEL]: "hello",
      [SERVICE_NAME_LABEL]: "hello",
      [MCS_SOURCE_CLUSTER_LABEL]: "a",
    };
    const name = `s${GLOBAL_SLICE_SUFFIX}`;
    const foreign = slice(name, ["10.1.0.1"], { labels });
    const local = slice("hello-abcde", ["10.3.0.1"], { labels: { [SERVICE_NAME_LABEL]: "hello" } });
    expect(remembering(foreign).changed("s", "10.1.0.1")).toEqual([]);
    const { changed, remembered } = remembering(foreign, local);
    expect(changed("s", "10.1.0.1")).toEqual([`${name}: `]);
    expect(remembered.namesBeside(local)).toEqual(["s"]);
    expect(remembered.namesWith("a")).toEqual(["s"]);
    expect(remembered.endpoints.clusters()).toEqual(["a"]);
  });

  it("are not made again where they were deleted", () => {
    const s = imported("s", ["10.1.0.1", "10.1.0.2"]);
    const { store, changed } = remembering(s);
    store.delete(objectKey("work", "s"));
    expect(changed("s", "10.1.0.1")).toEqual([]);
    expect([...store.byIndex("importedService", HELLO)]).toEqual([]);
  });
});
