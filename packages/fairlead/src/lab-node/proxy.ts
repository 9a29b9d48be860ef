import { NODES, type Service } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import { createFlowTable } from "@fairlead/fleet/dataplane/service-proxy/flows.ts";
import { createHealthChecks } from "@fairlead/fleet/dataplane/service-proxy/health-check.ts";
import { PROXY_TABLE } from "@fairlead/fleet/dataplane/service-proxy/names.ts";
import { createServiceProxy } from "@fairlead/fleet/dataplane/service-proxy/proxy.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { TableWatch } from "@fairlead/os/nft/netlink/table-watch.ts";

/** The service proxy of the node, with its informers and drivers. */
export function composeProxy(
  client: KubeClient,
  node: {
    readonly name: string;
    readonly clusterCidrs: readonly string[];
    /** Shared with the kubelet; ended here, after it. */
    readonly services: Informer<Service>;
  },
  deps: RuntimeDeps,
): Component {
  const { services } = node;
  const endpointSlices = createInformer<EndpointSlice>(client, ENDPOINT_SLICES, {}, deps);
  const nodes = createInformer(client, NODES, { fieldSelector: `metadata.name=${node.name}` }, deps);
  const health = createHealthChecks(deps.log);
  const nft = createNft();
  const flows = createFlowTable({ clock: deps.clock, log: deps.log });
  const proxy = createServiceProxy({
    services,
    endpointSlices,
    nodeName: node.name,
    nodes,
    clusterCidrs: node.clusterCidrs,
    nft,
    flows,
    health,
    watchTable: (onDeleted) => new TableWatch({ tables: [PROXY_TABLE.name], onDeleted, deps }),
    clock: deps.clock,
    rng: deps.rng,
    log: deps.log.child({ part: "proxy" }),
  });
  return {
    async start(signal) {
      services.start(signal);
      endpointSlices.start(signal);
      nodes.start(signal);
      await proxy.start(signal);
    },
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await services[Symbol.asyncDispose]();
      await endpointSlices[Symbol.asyncDispose]();
      await nodes[Symbol.asyncDispose]();
      await health[Symbol.asyncDispose]();
      flows[Symbol.dispose]();
      nft[Symbol.dispose]();
    },
  };
}
