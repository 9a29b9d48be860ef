import { createHash } from "node:crypto";
import type { Catalog, ServedGroup, ServedVersion } from "#registry/catalog.ts";
import type { ResourceDefinition, ReviewDefinition } from "#registry/types.ts";
import { pathNotFound } from "#status.ts";
import type { Exchange } from "./exchange.ts";
import { acceptsAggregated, negotiateFormat } from "./negotiate.ts";
import { SCALE_KIND } from "./scale.ts";
import { type Subresource, subresourcesOf } from "#registry/subresources.ts";

/** Discovery: the legacy form, and the aggregated form (KEP-3352). */

/** Serves `/api`, `/apis` and the paths down to the resources. Returns false for other paths. */
export async function serveDiscovery(catalog: Catalog, exchange: Exchange): Promise<boolean> {
  const segments = exchange.pathname.split("/").filter((it) => it !== "");
  const [root, ...rest] = segments;
  if (root !== "api" && root !== "apis") return false;
  if (exchange.pathname.includes("//")) throw pathNotFound();
  const groups = catalog.groups().filter((it) => (it.group === "") === (root === "api"));
  if (rest.length === 0) {
    await serveRoot(exchange, root, groups);
    return true;
  }
  const [groupName, version, ...extra] = root === "api" ? ["", ...rest] : rest;
  const group = groups.find((it) => it.group === groupName);
  if (group === undefined || extra.length > 0) throw pathNotFound();
  if (version === undefined) {
    await sendTagged(exchange, { kind: "APIGroup", apiVersion: "v1", ...describeGroup(group) });
    return true;
  }
  const served = group.versions.find((it) => it.version === version);
  if (served === undefined) throw pathNotFound();
  await sendTagged(exchange, resourceList(group.group, served));
  return true;
}

async function serveRoot(exchange: Exchange, root: string, groups: readonly ServedGroup[]): Promise<void> {
  const aggregated = acceptsAggregated(exchange.request.headers.accept);
  if (aggregated !== undefined) {
    exchange.response.setHeader("Vary", "Accept");
    const body = {
      kind: "APIGroupDiscoveryList",
      apiVersion: `apidiscovery.k8s.io/${aggregated}`,
      metadata: {},
      items: groups.map(discoverGroup),
    };
    const type = `application/json;g=apidiscovery.k8s.io;v=${aggregated};as=APIGroupDiscoveryList`;
    await sendTagged(exchange, body, type);
    return;
  }
  if (root === "api") {
    const versions = groups.flatMap((it) => it.versions.map((served) => served.version));
    await sendTagged(exchange, { kind: "APIVersions", versions, serverAddressByClientCIDRs: [] });
    return;
  }
  await sendTagged(exchange, { kind: "APIGroupList", apiVersion: "v1", groups: groups.map(describeGroup) });
}

/** The tag is a hash of the content: kubectl keeps discovery on disk until the tag changes. */
async function sendTagged(exchange: Exchange, body: unknown, type = "application/json"): Promise<void> {
  const isAggregated = type !== "application/json";
  const format = isAggregated ? "json" : negotiateFormat(exchange.request.headers.accept);
  const json = JSON.stringify(body);
  const etag = `"${createHash("sha256")
    .update(isAggregated ? type : format)
    .update(json)
    .digest("hex")
    .toUpperCase()}"`;
  const { request, response } = exchange;
  response.setHeader("ETag", etag);
  const known = (request.headers["if-none-match"] ?? "").split(",");
  if (known.some((it) => it.trim().replace(/^W\//, "") === etag)) {
    response.writeHead(304).end();
    return;
  }
  if (!isAggregated) await exchange.sendJson(200, json, format);
  else await exchange.sendBytes(200, Buffer.from(json, "utf8"), type);
}

function describeGroup({ group, versions }: ServedGroup): Record<string, unknown> {
  const described = versions.map(({ version }) => ({ groupVersion: `${group}/${version}`, version }));
  return { name: group, versions: described, preferredVersion: described[0] };
}

function apiVersion(group: string, version: string): string {
  return group === "" ? version : `${group}/${version}`;
}

function resourceList(group: string, { version, resources, reviews }: ServedVersion): unknown {
  return {
    kind: "APIResourceList",
    // As a real server has it: the list of the core alone has no version of its own.
    ...(group === "" ? {} : { apiVersion: "v1" }),
    groupVersion: apiVersion(group, version),
    resources: [
      ...resources.flatMap((it) => [
        describeResource(it),
        ...subresourcesOf(it).map((sub) => describeSub(it, sub)),
      ]),
      ...reviews.map(describeReview),
    ],
  };
}

function describeResource(it: ResourceDefinition): object {
  return {
    name: it.plural,
    singularName: it.singular,
    namespaced: it.namespaced,
    kind: it.kind,
    verbs: it.verbs,
    ...(it.shortNames.length === 0 ? {} : { shortNames: it.shortNames }),
    ...(it.categories.length === 0 ? {} : { categories: it.categories }),
    ...(it.verbs.includes("list") ? { storageVersionHash: storageVersionHash(it) } : {}),
  };
}

/** Kinds for which kube-apiserver stores an older version than it serves. */
const STORED_VERSIONS: ReadonlyMap<string, string> = new Map([
  ["customresourcedefinitions.apiextensions.k8s.io", "v1beta1"],
]);

/** Says which kind is stored: clients that migrate storage compare it. Source: apiserver, pkg/endpoints/discovery. */
function storageVersionHash({ group, version, kind, plural, storedAs }: ResourceDefinition): string {
  const written = STORED_VERSIONS.get(`${plural}.${group}`) ?? version;
  const stored = `${storedAs?.group ?? group}/${written}/${kind}`;
  return createHash("sha256").update(stored).digest().subarray(0, 8).toString("base64");
}

function describeSub(it: ResourceDefinition, sub: Subresource): object {
  const kind = kindOf(it, sub);
  const isOther = isOfAnother(it, kind);
  return {
    name: `${it.plural}/${sub.name}`,
    singularName: "",
    namespaced: it.namespaced,
    ...(isOther ? { group: kind.group, version: kind.version } : {}),
    kind: kind.kind,
    verbs: sub.verbs,
  };
}

function isOfAnother(it: Versioned, kind: Versioned): boolean {
  return kind.group !== it.group || kind.version !== it.version;
}

interface Versioned {
  readonly group: string;
  readonly version: string;
}

/** The kind of a response. Built-in resources omit group and version if they are their own. */
function responseKind(
  it: Versioned & { readonly isCustom?: boolean },
  kind: Versioned & { kind: string },
): object {
  if (it.isCustom === true || isOfAnother(it, kind))
    return { group: kind.group, version: kind.version, kind: kind.kind };
  return { group: "", version: "", kind: kind.kind };
}

function kindOf(it: ResourceDefinition, sub: Subresource): { group: string; version: string; kind: string } {
  if (sub.kind !== undefined) return sub.kind;
  if (sub.name === "scale") return { group: "autoscaling", version: "v1", kind: SCALE_KIND };
  return { group: it.group, version: it.version, kind: it.kind };
}

function describeReview(it: ReviewDefinition): object {
  const [group, version] = reviewVersion(it);
  return {
    name: it.parent === undefined ? it.plural : `${it.parent}/${it.plural}`,
    singularName: it.parent === undefined ? it.kind.toLowerCase() : "",
    namespaced: it.namespaced,
    ...(group === it.group && version === it.version ? {} : { group, version }),
    kind: it.kind,
    verbs: ["create"],
  };
}

function reviewVersion(it: ReviewDefinition): readonly [string, string] {
  const [group = "", version = ""] = (it.kindApiVersion ?? `${it.group}/${it.version}`).split("/");
  return [group, version];
}

function discoverGroup({ group, versions }: ServedGroup): unknown {
  return {
    metadata: { ...(group === "" ? {} : { name: group }), creationTimestamp: null },
    versions: versions.map((it) => ({
      version: it.version,
      resources: [
        ...it.resources.map((resource) => discoverResource(resource, it.reviews)),
        ...it.reviews.filter((review) => review.parent === undefined).map(discoverReview),
      ],
      freshness: "Current",
    })),
  };
}

function discoverResource(it: ResourceDefinition, reviews: readonly ReviewDefinition[]): unknown {
  const subresources = [
    ...subresourcesOf(it).map((sub) => ({
      subresource: sub.name,
      responseKind: responseKind(it, kindOf(it, sub)),
      verbs: sub.verbs,
    })),
    ...reviews
      .filter((review) => review.parent === it.plural)
      .map((review) => {
        const [group, version] = reviewVersion(review);
        return {
          subresource: review.plural,
          responseKind: responseKind(it, { group, version, kind: review.kind }),
          verbs: ["create"],
        };
      }),
  ];
  return {
    resource: it.plural,
    responseKind: responseKind(it, it),
    scope: it.namespaced ? "Namespaced" : "Cluster",
    singularResource: it.singular,
    verbs: it.verbs,
    ...(it.shortNames.length === 0 ? {} : { shortNames: it.shortNames }),
    ...(it.categories.length === 0 ? {} : { categories: it.categories }),
    ...(subresources.length === 0 ? {} : { subresources }),
  };
}

function discoverReview(it: ReviewDefinition): unknown {
  return {
    resource: it.plural,
    responseKind: responseKind(it, it),
    scope: it.namespaced ? "Namespaced" : "Cluster",
    singularResource: it.kind.toLowerCase(),
    verbs: ["create"],
  };
}
