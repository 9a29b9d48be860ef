import type { CidrMatch } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { defined } from "@fairlead/base/defined.ts";
import { byText } from "@fairlead/base/text.ts";
import { policySettings } from "#policy/settings.ts";
import { renderTable } from "../table.ts";
import { compareViews, type Comparison, renderComparison } from "./compare.ts";
import { withPodsOf } from "./diff.ts";
import { type ClusterObjects, ClusterView } from "./view.ts";

/** The pods and Services that gain or lose if settings of a ClusterMeshProfile change. Pure. */

/** Settings that differ from what they are. */
export interface ChangedTerms {
  readonly defaultGlobalNamespace?: boolean;
  readonly policyDefaultLocalCluster?: boolean;
  readonly policyCIDRMatchMode?: readonly CidrMatch[];
}

interface ServiceChange {
  readonly change: "gains" | "loses";
  readonly cluster: string;
  /** `namespace/name`. */
  readonly service: string;
  /** The cluster of the endpoints that it uses, or no longer uses. */
  readonly endpointsOf: string;
}

export interface WhatIf {
  /** Of each cluster, by its own policies. */
  readonly clusters: readonly ({ readonly cluster: string } & Comparison)[];
  readonly services: readonly ServiceChange[];
  readonly servicesLeftOut: number;
}

/** How many Services are listed at most. */
const MAX_SERVICES = 5000;

/** @param clusters - All that are to be compared, as they see themselves. */
export function whatIf(clusters: readonly ClusterObjects[], terms: ChangedTerms): WhatIf {
  const services = serviceChanges(clusters, terms).toSorted((a, b) => byText(idOf(a), idOf(b)));
  return {
    clusters: clusters.map((it) => {
      const views = [{}, terms].map((of) => viewOf(it, clusters, of)) as [ClusterView, ClusterView];
      return {
        cluster: it.cluster,
        ...compareViews(
          views,
          views.flatMap((view) => view.policies),
        ),
      };
    }),
    services: services.slice(0, MAX_SERVICES),
    servicesLeftOut: Math.max(0, services.length - MAX_SERVICES),
  };
}

function viewOf(
  of: ClusterObjects,
  clusters: readonly ClusterObjects[],
  { policyDefaultLocalCluster, policyCIDRMatchMode, ...terms }: ChangedTerms,
): ClusterView {
  const settings = {
    ...defined({ isLocalByDefault: policyDefaultLocalCluster }),
    ...(policyCIDRMatchMode === undefined ? {} : matchesOf(policyCIDRMatchMode)),
  };
  const homes = new Map(clusters.map((it) => [it.cluster, it]));
  const all = withPodsOf(of, clusters);
  // Of clusters that were not read, those that are known now.
  const pods = all.pods.filter(({ cluster, namespace }) => {
    const home = homes.get(cluster);
    return cluster === of.cluster || home === undefined || isGlobal(home, namespace, terms);
  });
  return new ClusterView({ ...all, ...settings, pods });
}

function matchesOf(policyCIDRMatchMode: readonly CidrMatch[]) {
  const { cidrMatchesPods, cidrMatchesNodes } = policySettings("", {
    policyCIDRMatchMode: [...policyCIDRMatchMode],
  });
  return { cidrMatchesPods, cidrMatchesNodes };
}

function isGlobal({ sharing }: ClusterObjects, namespace: string, terms: ChangedTerms): boolean {
  return sharing.annotated.get(namespace) ?? terms.defaultGlobalNamespace ?? sharing.isGlobalByDefault;
}

function serviceChanges(clusters: readonly ClusterObjects[], terms: ChangedTerms): readonly ServiceChange[] {
  const shared = new Map(
    clusters.map((it) => [
      it,
      new Set(it.sharing.services.filter((one) => one.isShared).map((one) => `${one.namespace}/${one.name}`)),
    ]),
  );
  return clusters.flatMap((here) =>
    here.sharing.services.flatMap(({ namespace, name }) =>
      clusters.flatMap((there): readonly ServiceChange[] => {
        if (here === there || shared.get(there)?.has(`${namespace}/${name}`) !== true) return [];
        const [before, after] = [{}, terms].map((it) =>
          [here, there].every((cluster) => isGlobal(cluster, namespace, it)),
        );
        if (before === after) return [];
        const change = after === true ? "gains" : "loses";
        return [
          { change, cluster: here.cluster, service: `${namespace}/${name}`, endpointsOf: there.cluster },
        ];
      }),
    ),
  );
}

function idOf({ cluster, service, endpointsOf }: ServiceChange): string {
  return `${cluster} ${service} ${endpointsOf}`;
}

/** How many Services are in the table for people at most. */
const MAX_ROWS = 200;

export function renderWhatIf({ clusters, services, servicesLeftOut }: WhatIf): string {
  const table = renderTable(
    [
      { head: "CHANGE", cell: (it: ServiceChange) => it.change },
      { head: "CLUSTER", cell: (it) => it.cluster },
      { head: "SERVICE", cell: (it) => it.service },
      { head: "ENDPOINTS OF", cell: (it) => it.endpointsOf },
    ],
    services.slice(0, MAX_ROWS),
  );
  const more = servicesLeftOut + Math.max(0, services.length - MAX_ROWS);
  return [
    ...clusters.map((it) => `By the policies of ${it.cluster}:\n${renderComparison(it).join("\n")}`),
    services.length === 0
      ? "no global Service gains or loses endpoints"
      : `Global Services:\n${table}${more === 0 ? "" : `\nand ${more} more; -o json lists ${MAX_SERVICES} at most`}`,
  ].join("\n\n");
}
