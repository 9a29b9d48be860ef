import { isAnnotationKey, isDnsLabel, isLabelValue, isPortNumber, isQualifiedName } from "#domain/formats.ts";
import { MAX_AFFINITY_SECONDS, TRAFFIC_DISTRIBUTIONS } from "#domain/export-problem.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";

type Spec = ImportedService["spec"];

/**
 * A service of the fleet without the values that this cluster's API server would reject: the values of one exporter must
 * not block those of the others. Fairlead's hub rejects such values; a hub of an older version may still hold them. Pure.
 */
export function soundImport(spec: Spec): Spec {
  const ports = spec.ports.filter(isSoundPort).map(({ appProtocol, ...port }) => ({
    ...port,
    ...(appProtocol === undefined || !isQualifiedName(appProtocol) ? {} : { appProtocol }),
  }));
  const names = new Set(ports.map((it) => it.name ?? ""));
  const { labels, annotations, ipFamilies, sessionAffinityConfig, trafficDistribution, ...rest } = spec;
  const timeout = sessionAffinityConfig?.clientIP?.timeoutSeconds;
  const isTimeout = timeout !== undefined && timeout >= 1 && timeout <= MAX_AFFINITY_SECONDS;
  return {
    ...rest,
    ports,
    clusters: spec.clusters.map((it) => ({
      ...it,
      ports: it.ports.filter((port) => names.has(port.importedAs)),
    })),
    ...(labels === undefined
      ? {}
      : { labels: pick(labels, (key, value) => isQualifiedName(key) && isLabelValue(value)) }),
    ...(annotations === undefined ? {} : { annotations: pick(annotations, isAnnotationKey) }),
    ...(ipFamilies === undefined ? {} : { ipFamilies: [...new Set(ipFamilies)] }),
    ...(sessionAffinityConfig === undefined || !isTimeout ? {} : { sessionAffinityConfig }),
    ...(trafficDistribution === undefined || !TRAFFIC_DISTRIBUTIONS.includes(trafficDistribution)
      ? {}
      : { trafficDistribution }),
  };
}

function isSoundPort({ name = "", port }: Spec["ports"][number]): boolean {
  return (name === "" || isDnsLabel(name)) && isPortNumber(port);
}

function pick(
  map: Readonly<Record<string, string>>,
  isSound: (key: string, value: string) => boolean,
): Record<string, string> {
  return Object.fromEntries(Object.entries(map).filter(([key, value]) => isSound(key, value)));
}
