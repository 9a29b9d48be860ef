import type { ObjectReader } from "#values/object.ts";

/** A Service's port, as webhooks and conversions name it. */
export interface ServicePort {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

/**
 * Where a Service is reached from the server's own network.
 *
 * @throws {Error} saying why it is not.
 */
export type ServiceResolver = (service: ServicePort) => Address;

interface Port {
  readonly name?: string;
  readonly port?: number;
}

interface Slice {
  readonly endpoints?: readonly {
    readonly addresses?: readonly string[];
    readonly conditions?: { readonly ready?: boolean };
  }[];
  readonly ports?: readonly Port[];
}

/**
 * A ready endpoint of the Service, as the real server with `--enable-aggregator-routing`: its own network seldom has the
 * Services' addresses. Without a ready endpoint, the Service's address.
 */
export function endpointResolver(reader: ObjectReader): ServiceResolver {
  return ({ namespace, name, port }) => {
    const service = reader.get("", "services", namespace, name);
    if (service === undefined) throw new Error(`service ${JSON.stringify(name)} not found`);
    const {
      ports = [],
      type,
      externalName,
      clusterIP,
    } = service["spec"] as {
      ports?: readonly Port[];
      type?: string;
      externalName?: string;
      clusterIP?: string;
    };
    if (type === "ExternalName") return { host: externalName ?? "", port };
    const wanted = ports.find((it) => it.port === port);
    if (wanted === undefined)
      throw new Error(`no service port ${port} found for service ${JSON.stringify(name)}`);
    const endpoint = findEndpoint(reader, { namespace, name, port }, wanted.name ?? "");
    if (endpoint !== undefined) return endpoint;
    if (clusterIP === undefined || clusterIP === "None" || clusterIP === "") {
      throw new Error(`no endpoints available for service ${JSON.stringify(name)}`);
    }
    return { host: clusterIP, port };
  };
}

function findEndpoint(
  reader: ObjectReader,
  { namespace, name }: ServicePort,
  portName: string,
): Address | undefined {
  for (const object of reader.list("discovery.k8s.io", "endpointslices", namespace)) {
    if (object.metadata.labels?.["kubernetes.io/service-name"] !== name) continue;
    const { endpoints = [], ports = [] } = object as Slice;
    const port = ports.find((it) => (it.name ?? "") === portName)?.port;
    const host = endpoints.find((it) => it.conditions?.ready !== false)?.addresses?.[0];
    if (port !== undefined && host !== undefined) return { host, port };
  }
  return undefined;
}
