import { firstUid } from "#domain/first-uid.ts";
import { createHash } from "node:crypto";
import type {
  AutoUpgradeProfile,
  ManagedClusterUpdate,
  ReleaseCatalog,
  UpdateRun,
  UpgradeNode,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import type { UpdateMember } from "./fleet.ts";
import { compareVersions, type KubernetesVersion, naturally, parseImage, parseVersion } from "./versions.ts";

/** What an auto-upgrade profile would upgrade its members to. Pure. */

export interface ChannelFacts {
  readonly catalogs: readonly ReleaseCatalog[];
  readonly members: readonly (UpdateMember & {
    readonly kubernetesVersion: string | undefined;
    readonly nodes: readonly UpgradeNode[];
  })[];
}

export type ChannelDecision =
  | { readonly is: "nothing"; readonly message: string }
  | { readonly is: "upgrade"; readonly update: ManagedClusterUpdate; readonly versions: readonly string[] };

export function decideChannel({ spec }: AutoUpgradeProfile, facts: ChannelFacts): ChannelDecision {
  if (spec.channel === "NodeImage" || spec.channel === "SecurityPatch")
    return decideImages(spec.channel, spec.nodeImageSelection?.type ?? "Latest", facts);
  return decideVersion(spec, facts);
}

interface Release {
  readonly text: string;
  readonly version: KubernetesVersion;
  readonly isLongTerm: boolean;
}

/** Released versions of all regions: a member whose region does not have one yet waits in its run. */
function releasesOf({ catalogs }: ChannelFacts): Release[] {
  const all = catalogs.flatMap(({ spec }) => spec.kubernetesVersions ?? []);
  return all
    .flatMap(({ version: text, preview = false, longTermSupport: isLongTerm = false }) => {
      const version = parseVersion(text);
      return version === undefined || version.pre !== "" || preview ? [] : [{ text, version, isLongTerm }];
    })
    .toSorted((a, b) => compareVersions(b.version, a.version));
}

function decideVersion(spec: AutoUpgradeProfile["spec"], facts: ChannelFacts): ChannelDecision {
  const releases = releasesOf(facts).filter((it) => !it.isLongTerm || spec.longTermSupport === true);
  const goal = goalOf(spec, releases);
  if (goal === undefined) return { is: "nothing", message: "the catalogs have no version of the channel" };
  const current = facts.members.flatMap((it) => parseVersion(it.kubernetesVersion) ?? []);
  const behind = current.filter((it) => isBehind(it, goal, releases));
  const lowest = behind.toSorted(compareVersions)[0];
  if (lowest === undefined) return { is: "nothing", message: "all members have the version of the channel" };
  // One minor version at a time: the next run continues from there.
  const minor = Math.min(goal.minor, lowest.minor + 1);
  const target =
    releases.find((it) => it.version.major === goal.major && it.version.minor === minor) ??
    releases.find((it) => it.version.major === goal.major && it.version.minor === lowest.minor);
  if (target === undefined || compareVersions(target.version, lowest) <= 0)
    return { is: "nothing", message: `the catalogs have no version ${goal.major}.${minor}` };
  const kubernetesVersion = target.text.replace(/^v/, "");
  return {
    is: "upgrade",
    update: {
      upgrade: { type: "Full", kubernetesVersion },
      nodeImageSelection: { type: spec.nodeImageSelection?.type ?? "Latest" },
    },
    versions: [kubernetesVersion],
  };
}

interface Minor {
  readonly major: number;
  readonly minor: number;
}

/** The minor version that a channel leads to. */
function goalOf(
  { channel, targetKubernetesVersion = "" }: AutoUpgradeProfile["spec"],
  releases: readonly Release[],
): Minor | undefined {
  const newest = releases[0]?.version;
  if (newest === undefined) return undefined;
  if (channel === "Rapid") return newest;
  if (channel === "Stable") return { major: newest.major, minor: newest.minor - 1 };
  const [major = 0, minor = 0] = targetKubernetesVersion.split(".").map(Number);
  return { major, minor };
}

function isBehind(it: KubernetesVersion, goal: Minor, releases: readonly Release[]): boolean {
  if (it.major !== goal.major || it.minor > goal.minor) return false;
  if (it.minor < goal.minor) return true;
  const newest = releases.find(({ version }) => version.major === goal.major && version.minor === goal.minor);
  return newest !== undefined && compareVersions(it, newest.version) < 0;
}

function decideImages(
  channel: "NodeImage" | "SecurityPatch",
  type: "Latest" | "Consistent",
  { catalogs, members }: ChannelFacts,
): ChannelDecision {
  const images = catalogs
    .flatMap(({ spec }) => spec.nodeImages ?? [])
    .filter((it) => channel === "NodeImage" || (it.securityPatch === true && it.os !== "Windows"))
    .map((it) => it.version)
    .toSorted((a, b) => naturally(parseImage(b).version, parseImage(a).version));
  const present = members.flatMap((it) => it.nodes.flatMap(({ image }) => image ?? []));
  const families = new Set(present.map((it) => parseImage(it).family));
  const newest = [...families]
    .toSorted()
    .flatMap((family) => images.find((it) => parseImage(it).family === family) ?? []);
  const versions = newest.filter((it) => present.some((one) => isOlderImage(one, it)));
  if (versions.length === 0)
    return { is: "nothing", message: "all nodes have the newest images of the channel" };
  const nodeImageSelection =
    channel === "NodeImage"
      ? { type }
      : { type: "Custom" as const, customNodeImageVersions: versions.map((version) => ({ version })) };
  return { is: "upgrade", update: { upgrade: { type: "NodeImageOnly" }, nodeImageSelection }, versions };
}

function isOlderImage(image: string, than: string): boolean {
  const [a, b] = [parseImage(image), parseImage(than)];
  return a.family === b.family && naturally(a.version, b.version) < 0;
}

const WEEK_MS = 7 * 24 * 3600 * 1000;

/** When a profile may start the next run of node images: weekly. Unit: milliseconds since 1970. */
export function nextTrigger({ spec, status }: AutoUpgradeProfile): number {
  const last = status?.lastTriggeredAt;
  return spec.channel !== "NodeImage" || last === undefined ? 0 : Date.parse(last) + WEEK_MS;
}

/** The run that a profile makes of a decision. The same again after a crash, and another one after the next trigger. */
export function runOfProfile(
  { metadata, spec, status }: AutoUpgradeProfile,
  { update, versions }: Extract<ChannelDecision, { is: "upgrade" }>,
): UpdateRun {
  const hash = createHash("sha256").update(
    JSON.stringify([firstUid({ metadata }), versions, status?.lastTriggeredAt]),
  );
  return {
    metadata: { name: `${metadata.name.slice(0, 39)}-${hash.digest("hex").slice(0, 10)}` },
    spec: {
      managedClusterUpdate: update,
      autoUpgradeProfileName: metadata.name,
      ...(spec.updateStrategyName === undefined ? {} : { updateStrategyName: spec.updateStrategyName }),
    },
  };
}
