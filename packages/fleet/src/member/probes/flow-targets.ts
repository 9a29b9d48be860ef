import type { EndpointPort } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { FlowPath } from "#api/fairlead.dev/v1alpha1/updates.ts";
import type { EndpointSliceImport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";

/** One port of one endpoint, as a client would ask it. */
export interface FlowTarget {
  /** "NAMESPACE/NAME". */
  readonly service: string;
  readonly address: string;
  readonly port: number;
  /** Undefined: a connection is proof enough. */
  readonly http: { readonly host: string; readonly path: string } | undefined;
}

/** More are not asked: a minute has 240 probes. */
const MAX_TARGETS = 1000;

/** What clients would reach: TCP ports of ready endpoints. */
export function planFlowTargets(
  slices: Iterable<EndpointSliceImport>,
  paths: readonly FlowPath[] = [],
): FlowTarget[] {
  const targets = new Map<string, FlowTarget>();
  for (const slice of slices)
    for (const it of targetsOf(slice, paths)) {
      if (targets.size >= MAX_TARGETS) return [...targets.values()];
      targets.set(`${it.service} ${it.address} ${it.port}`, it);
    }
  return [...targets.values()];
}

function* targetsOf({ spec }: EndpointSliceImport, paths: readonly FlowPath[]): Generator<FlowTarget> {
  const { namespace, name } = spec.ownerServiceReference;
  const service = `${namespace}/${name}`;
  const host = `${name}.${namespace}.svc.clusterset.local`;
  const ports = (spec.ports ?? []).flatMap((it) => {
    const path = pathOf(it, service, paths);
    const http = path === undefined ? undefined : { host, path };
    const isTcp = (it.protocol ?? "TCP") === "TCP";
    return it.port === undefined || !isTcp ? [] : [{ port: it.port, http }];
  });
  for (const { addresses, conditions } of spec.endpoints) {
    const [address] = addresses;
    const isUsed = conditions?.ready !== false && conditions?.terminating !== true;
    if (address !== undefined && isUsed) for (const it of ports) yield { service, address, ...it };
  }
}

function pathOf(port: EndpointPort, service: string, paths: readonly FlowPath[]): string | undefined {
  const named = paths.find(
    (it) => it.service === service && (it.port === undefined || it.port === (port.name ?? "")),
  );
  return named?.path ?? (port.appProtocol === "http" ? "/" : undefined);
}
