import { defined } from "@fairlead/base/defined.ts";
import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import { joinLines } from "@fairlead/base/print.ts";
import { MAX_OWN_YAML, readYaml } from "@fairlead/kube/yaml/read.ts";
import type { ReleaseCatalog } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { shown } from "#domain/formats.ts";
import { compareVersions, naturally, parseVersion } from "#updates/clusters/versions.ts";
import { type ListOutput, renderData } from "../output.ts";
import { type Column, renderTable } from "../table.ts";

/** ReleaseCatalogs made from lists of versions: files, and listings of registries. Pure. */

type Spec = ReleaseCatalog["spec"];
type Kubernetes = NonNullable<Spec["kubernetesVersions"]>[number];
type Image = NonNullable<Spec["nodeImages"]>[number];

/** Longest list that is read. Unit: entries. */
const MAX_ENTRIES = 20_000;
/** Bounds of the kind. */
const MAX_VERSIONS = 500;
const MAX_IMAGES = 1000;

/**
 * Names in a list: a line each, a JSON or YAML list of texts or of objects with `tag_name`, `version` or `name`, or an
 * object with such a list as `tags` (of a registry), `items` or `values`.
 *
 * @throws {FleetError} `OPTION_INVALID` with the source.
 */
export function readNames(text: string, source: string): readonly string[] {
  const value = /^\s*[[{]/.test(text) || /^\s*- /.test(text) ? readData(text, source) : text.split("\n");
  const list = Array.isArray(value) ? value : isObject(value) ? listIn(value) : undefined;
  if (list === undefined)
    throw new FleetError(
      "OPTION_INVALID",
      `${source} has no list of versions: expected lines, or a list as tags`,
    );
  if (list.length > MAX_ENTRIES)
    throw new FleetError("OPTION_INVALID", `${source} has more than ${MAX_ENTRIES} entries`);
  return list.flatMap((it) => nameOf(it)).flatMap((it) => (it === "" || it.startsWith("#") ? [] : [it]));
}

function readData(text: string, source: string): unknown {
  try {
    return readYaml(text, MAX_OWN_YAML).value;
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `${source} is not YAML or JSON: ${messageOf(cause)}`, { cause });
  }
}

function listIn(value: Readonly<Record<string, unknown>>): readonly unknown[] | undefined {
  return ["tags", "items", "values"].map((it) => value[it]).find((it) => Array.isArray(it));
}

function nameOf(entry: unknown): string[] {
  if (typeof entry === "string") return [entry.trim()];
  if (!isObject(entry)) return [];
  const name = ["tag_name", "version", "name"].map((it) => entry[it]).find((it) => typeof it === "string");
  return typeof name === "string" ? [name.trim()] : [];
}

export interface CatalogSources {
  /** Names of versions of Kubernetes. Undefined: the catalog says nothing about them. */
  readonly kubernetes: readonly string[] | undefined;
  readonly nodeImages: readonly string[] | undefined;
  readonly region: string | undefined;
  /** How many minor versions are kept, the newest ones. */
  readonly minors: number;
  /** Whether previews are kept. */
  readonly previews: boolean;
}

export interface DraftedCatalog {
  readonly spec: Spec;
  /** Number of names that are not versions. */
  readonly ignored: number;
}

/** @throws {FleetError} `OPTION_INVALID` where a list has no version at all, or more than a catalog may have. */
export function draftCatalog(sources: CatalogSources): DraftedCatalog {
  const { kubernetes, nodeImages, region } = sources;
  if (region !== undefined && (region === "" || region.length > 63))
    throw new FleetError("OPTION_INVALID", `--region: ${shown(region)} must have 1 to 63 characters`);
  const versions = kubernetes?.flatMap((it) => versionOf(it) ?? []);
  const images = nodeImages?.filter((it) => it.length <= 128 && IMAGE.test(it));
  return {
    spec: defined({
      region,
      kubernetesVersions: versions && keptVersions(versions, sources),
      nodeImages: images && keptImages(images),
    }),
    ignored: lost(kubernetes, versions) + lost(nodeImages, images),
  };
}

function lost(given: readonly string[] = [], kept: readonly string[] = []): number {
  return given.length - kept.length;
}

/** As the kind requires it. */
const IMAGE = /^[0-9A-Za-z][0-9A-Za-z._-]*-[0-9][0-9A-Za-z._]*$/;

/** A tag of a registry has "-" in the place of the "+" before a build: v1.34.1-k3s1 is 1.34.1+k3s1. */
function versionOf(text: string): string | undefined {
  const plain = text.replace(/^v/, "").replace(/-(?=(?:k3s|rke2r|k0s)[0-9.]*\d$)/, "+");
  return plain.length <= 128 && parseVersion(plain) !== undefined ? plain : undefined;
}

function keptVersions(versions: readonly string[], { minors, previews }: CatalogSources): Kubernetes[] {
  const parsed = [...new Set(versions)]
    .flatMap((text) => {
      const version = parseVersion(text);
      return version === undefined || (version.pre !== "" && !previews) ? [] : [{ text, version }];
    })
    .toSorted((a, b) => compareVersions(b.version, a.version));
  const minorOf = ({ version }: (typeof parsed)[number]): string => `${version.major}.${version.minor}`;
  const newest = new Set([...new Set(parsed.map(minorOf))].slice(0, minors));
  const kept = parsed.filter((it) => newest.has(minorOf(it)));
  refuseEmpty(kept, "Kubernetes");
  if (kept.length > MAX_VERSIONS)
    throw new FleetError(
      "OPTION_INVALID",
      `${kept.length} versions of Kubernetes are more than the ${MAX_VERSIONS} of a catalog; keep fewer with --minor-versions`,
    );
  return kept.map(({ text, version }) => ({
    version: text,
    ...(version.pre === "" ? {} : { preview: true }),
  }));
}

function keptImages(images: readonly string[]): Image[] {
  const kept = [...new Set(images)].toSorted((a, b) => naturally(b, a));
  refuseEmpty(kept, "node images");
  if (kept.length > MAX_IMAGES)
    throw new FleetError(
      "OPTION_INVALID",
      `${kept.length} node images are more than the ${MAX_IMAGES} of a catalog; list fewer`,
    );
  return kept.map((version) => ({ version }));
}

function refuseEmpty(kept: readonly unknown[], what: string): void {
  if (kept.length > 0) return;
  throw new FleetError(
    "OPTION_INVALID",
    `the list has no version of ${what}; a catalog without any would hold all upgrades back`,
  );
}

const COLUMNS: readonly Column<ReleaseCatalog>[] = [
  { head: "NAME", cell: (it) => it.metadata.name },
  { head: "REGION", cell: (it) => it.spec.region ?? "all" },
  { head: "KUBERNETES", cell: ({ spec }) => summary(spec.kubernetesVersions) },
  { head: "NODE IMAGES", cell: ({ spec }) => summary(spec.nodeImages) },
];

/** "12, from 1.34.1": entries are newest first as the importer writes them. */
function summary(entries: readonly { readonly version: string }[] | undefined): string {
  if (entries === undefined) return "-";
  const [newest] = entries;
  return newest === undefined ? "0" : `${entries.length}, first ${newest.version}`;
}

export function renderCatalogs(catalogs: readonly ReleaseCatalog[], output: ListOutput): string {
  if (output === "name") return joinLines(catalogs.map((it) => it.metadata.name));
  if (output === "json" || output === "yaml") return renderData(catalogs, output);
  return catalogs.length === 0 ? "there are no ReleaseCatalogs" : renderTable(COLUMNS, catalogs);
}
