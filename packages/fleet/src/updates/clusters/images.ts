import type { ManagedClusterUpdate, UpgradeNode } from "#api/fairlead.dev/v1alpha1/updates.ts";
import type { Releases } from "./fleet.ts";
import { naturally, parseImage } from "./versions.ts";

/** Which node images an upgrade leads to. */

/** The families of images that nodes have. Nodes whose image is not known have none. */
export function familiesOf(nodes: readonly UpgradeNode[] | undefined): ReadonlySet<string> {
  return new Set(
    (nodes ?? []).flatMap((it) => (it.image === undefined ? [] : [parseImage(it.image).family])),
  );
}

function newest(versions: readonly string[]): string | undefined {
  return versions.toSorted((a, b) => naturally(parseImage(b).version, parseImage(a).version))[0];
}

function ofFamily(images: readonly { readonly version: string }[], family: string): string[] {
  return images.map((it) => it.version).filter((it) => parseImage(it).family === family);
}

/** A cluster that a run with consistent images is about. */
export interface ImageUser {
  readonly families: ReadonlySet<string>;
  readonly releases: Releases;
}

/** For each family the newest version that all clusters with nodes of it can have; families without such a version have none. */
export function consistentImages(users: readonly ImageUser[]): string[] {
  const families = new Set(users.flatMap((it) => [...it.families]));
  return [...families].toSorted().flatMap((family) => {
    const available = users
      .filter((it) => it.families.has(family))
      .map((it) => new Set(ofFamily(it.releases.images ?? [], family)));
    const common = [...(available[0] ?? [])].filter((version) => available.every((it) => it.has(version)));
    return newest(common) ?? [];
  });
}

export type ImageDecision =
  | { readonly is: "images"; readonly images: readonly string[] }
  | { readonly is: "wait" | "skip"; readonly message: string };

interface Choice {
  readonly update: ManagedClusterUpdate;
  /** Of the run, with Consistent. */
  readonly selected: readonly string[];
  readonly families: ReadonlySet<string>;
  readonly releases: Releases;
  readonly region: string;
}

/** The images of one cluster, when its upgrade begins. */
export function chooseImages({ update, selected, families, releases, region }: Choice): ImageDecision {
  const { type = "Latest", customNodeImageVersions = [] } = update.nodeImageSelection ?? {};
  const known = releases.images;
  if (type === "Custom") {
    const wanted = customNodeImageVersions
      .map((it) => it.version)
      .filter((it) => families.has(parseImage(it).family));
    const missing = wanted.filter((it) => known !== undefined && !known.some((one) => one.version === it));
    if (missing.length === 0) return { is: "images", images: wanted };
    return { is: "wait", message: `node image ${missing.join(", ")} is not available in ${region} yet` };
  }
  if (type === "Consistent") {
    const without = [...families].filter((it) => !selected.some((one) => parseImage(one).family === it));
    if (without.length === 0 || known === undefined)
      return { is: "images", images: selected.filter((it) => families.has(parseImage(it).family)) };
    return {
      is: "skip",
      message: `the run has no consistent node image of ${without.toSorted().join(", ")}`,
    };
  }
  const images = [...families].toSorted().flatMap((it) => newest(ofFamily(known ?? [], it)) ?? []);
  if (images.length > 0 || update.upgrade.type !== "NodeImageOnly") return { is: "images", images };
  return { is: "wait", message: `no ReleaseCatalog has node images of this cluster for ${region} yet` };
}
