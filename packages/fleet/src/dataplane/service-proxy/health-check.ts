import { createServer, type Server } from "node:http";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { HTTP_LIMITS, limitConnections } from "@fairlead/base/connection-limit.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { isPort, selectBackends } from "./backends.ts";
import type { ServiceView } from "./plan.ts";

/**
 * Reports to load balancers which nodes have endpoints of a Service with `externalTrafficPolicy: Local`: its
 * `healthCheckNodePort` answers 200 with local endpoints and 503 without. Source: k8s.io/kubernetes,
 * pkg/proxy/healthcheck.
 */

export interface HealthCheck {
  readonly port: number;
  /** Those on this node that are ready. */
  readonly localEndpoints: number;
}

export function planHealthCheck({ service, slices, node }: ServiceView): HealthCheck | undefined {
  const { type, externalTrafficPolicy, healthCheckNodePort: port, ports = [] } = service.spec ?? {};
  if (type !== "LoadBalancer" || externalTrafficPolicy !== "Local" || !isPort(port)) return undefined;
  const family = familyOf(service);
  const ready = [...slices].map((slice) => ({
    ...slice,
    endpoints: slice.endpoints.filter((it) => it.conditions?.ready ?? true),
  }));
  const addresses = ports.flatMap((it) => selectBackends(ready, { port: it, family, node }).localAddresses);
  return { port, localEndpoints: new Set(addresses).size };
}

function familyOf({ spec }: Service): "4" | "6" {
  return spec?.ipFamilies?.[0] === "IPv6" || spec?.clusterIP?.includes(":") === true ? "6" : "4";
}

export interface HealthChecks extends AsyncDisposable {
  /** The health check of a Service; undefined if it has none. */
  set(service: ObjectKey, check: HealthCheck | undefined): void;
}

interface Listening extends HealthCheck {
  readonly server: Server;
}

/** One small server for each Service that asks for it, on all addresses of the node. */
export function createHealthChecks(log: Logger): HealthChecks {
  const listening = new Map<ObjectKey, Listening>();
  const close = (service: ObjectKey): void => {
    listening.get(service)?.server.closeAllConnections();
    listening.get(service)?.server.close();
    listening.delete(service);
  };
  return {
    set(service, check) {
      const present = listening.get(service);
      if (present !== undefined && present.port === check?.port) {
        listening.set(service, { ...present, localEndpoints: check.localEndpoints });
        return;
      }
      close(service);
      if (check === undefined) return;
      const server = createServer(HTTP_LIMITS, (request, response) => {
        onWhole(request, response);
        const { localEndpoints = 0 } = listening.get(service) ?? {};
        const body = answerOf(service, localEndpoints);
        response
          .writeHead(localEndpoints > 0 ? 200 : 503, {
            "Content-Type": "application/json",
            "X-Content-Type-Options": "nosniff",
            "X-Load-Balancing-Endpoint-Weight": String(localEndpoints),
          })
          .end(body);
      });
      const onWhole = limitConnections(server);
      server.on("error", (error) =>
        log.warn("a Service's health check cannot be served", { service, error: messageOf(error) }),
      );
      server.listen(check.port);
      listening.set(service, { ...check, server });
    },
    async [Symbol.asyncDispose]() {
      for (const service of listening.keys()) close(service);
    },
  };
}

function answerOf(service: ObjectKey, localEndpoints: number): string {
  const [namespace, name] = service.split("/");
  return JSON.stringify({ service: { namespace, name }, localEndpoints, serviceProxyHealthy: true });
}
