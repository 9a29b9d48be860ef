import { printText } from "@fairlead/base/print.ts";
import { defined } from "@fairlead/base/defined.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { VERSION } from "@fairlead/base/version.ts";
import {
  type ApplyMode,
  type AttachMode,
  CLUSTER_MESH_PROFILES,
  type ClusterMeshProfile,
  type NetworkMode,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import {
  applyPlan,
  createProfile,
  type Goal,
  planFor,
  untilConnected,
} from "@fairlead/fleet/cli/mesh/apply.ts";
import { viewNamespaceOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { readIdentities } from "@fairlead/fleet/cli/mesh/identities.ts";
import { getProfile, type MeshSnapshot, readMesh } from "@fairlead/fleet/cli/mesh/read.ts";
import {
  memberRows,
  renderMembers,
  renderPlan,
  renderProfile,
  renderProfiles,
} from "@fairlead/fleet/cli/mesh/render.ts";
import { renderMeshStatus, summarizeMesh } from "@fairlead/fleet/cli/mesh/status.ts";
import type { ListOutput, ResultOutput } from "@fairlead/fleet/cli/output.ts";
import type { MeshPlan } from "@fairlead/fleet/domain/mesh-plan.ts";
import { parsePairs } from "@fairlead/fleet/domain/member-selector.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { matcherOfPairs } from "@fairlead/kube/objects/selector.ts";
import { type HubContext, type HubFlags, onHub } from "#shared/on-hub.ts";
import { type ProfileSettingFlags, readProfileSettings } from "#shared/profile-settings.ts";
import { preflight, type PreflightFlags } from "./preflight.ts";

/** The code to end with where something is not connected: it differs from that of a command that failed. */
const UNHEALTHY = 3;

type WithResult = HubFlags & { readonly output: ResultOutput };
type WithList = HubFlags & { readonly output: ListOutput };

interface CreateFlags extends WithResult, ProfileSettingFlags {
  readonly memberSelector?: string | undefined;
  readonly network?: NetworkMode | undefined;
  readonly apply?: ApplyMode | undefined;
  readonly attach?: AttachMode | undefined;
  readonly version?: string | undefined;
}

export function create(name: string, flags: CreateFlags): Promise<void> {
  return onHub("mesh create", flags, async ({ hub, deps, signal }) => {
    const { memberSelector, network: mode, apply: when, attach, version } = flags;
    if (memberSelector !== undefined) checkSelector("--member-selector", memberSelector);
    if (attach !== undefined && mode !== "parallel")
      throw new FleetError("OPTION_INVALID", "--attach needs --network parallel");
    const spec: Partial<ClusterMeshProfile["spec"]> = {
      ...defined({
        memberSelector: memberSelector === undefined ? undefined : { byLabel: memberSelector },
        network: mode === undefined ? undefined : { mode, ...defined({ attach }) },
        apply: when,
        version,
      }),
      ...readProfileSettings(flags),
    };
    const { profile, isNew } = await createProfile(hub, { name, spec }, signal);
    const next =
      profile.spec.apply === "Manual"
        ? `; nothing changes on any cluster until "fairlead mesh apply ${name}"`
        : "; the hub connects its members";
    deps.progress(`${isNew ? "created" : "changed"} profile ${name}${next}`);
    if (flags.output !== "text") printText(renderProfile(profile, flags.output));
  });
}

function checkSelector(flag: string, text: string): Record<string, string> {
  try {
    return parsePairs(text);
  } catch (cause) {
    const message = Error.isError(cause) ? cause.message : "";
    throw new FleetError("OPTION_INVALID", `${flag}: ${message}`, { cause });
  }
}

interface ApplyFlags extends WithResult, PreflightFlags {
  readonly whatIf?: true | undefined;
  readonly dryRun?: true | undefined;
  readonly plan?: string | undefined;
  readonly rollback?: true | undefined;
  readonly batch?: string | undefined;
  readonly wait: boolean;
  readonly timeout: string;
}

export function apply(name: string, flags: ApplyFlags): Promise<void> {
  return onHub("mesh apply", flags, async (context) => {
    const { hub, deps, signal } = context;
    const snapshot = await readMesh(hub, signal);
    const profile = await getProfile(hub, name, signal);
    const goal: Goal = flags.rollback === true ? "before" : "selected";
    const plan = planFor(snapshot, profile, goal);
    const isDry = flags.whatIf === true || flags.dryRun === true;
    if (isDry || plan.problems.length > 0) printText(renderPlan(plan, snapshot.members, flags.output));
    const nowMs = clockOfServer(hub, deps.clock).now();
    const checked = { profile, plan, snapshot, flags, nowMs };
    if (!isDry) return carryOut(context, checked, goal);
    await preflight({ ...checked, isDry: true }, deps, signal);
    if (plan.problems.length > 0) process.exitCode = UNHEALTHY;
  });
}

interface Checked {
  readonly nowMs: number;
  readonly profile: ClusterMeshProfile;
  readonly plan: MeshPlan;
  readonly snapshot: MeshSnapshot;
  readonly flags: ApplyFlags;
}

async function carryOut({ hub, deps, signal }: HubContext, checked: Checked, goal: Goal): Promise<void> {
  const { profile, plan, flags } = checked;
  refusePlan(plan, flags.plan);
  if (goal === "selected") await preflight({ ...checked, isDry: false }, deps, signal);
  const batch =
    flags.batch === undefined ? undefined : parseWhole("--batch", flags.batch, { min: 1, max: 255 });
  const options = { batch, wait: flags.wait, timeoutMs: parseTimeout(flags.timeout) };
  const done = await applyPlan(hub, { plan, profile, options }, deps, signal);
  printText(flags.output === "text" ? describe(done) : renderProfile(done, flags.output));
}

function describe(profile: ClusterMeshProfile): string {
  return `${profile.metadata.name} is ${profile.status?.state ?? "applied"}`;
}

function refusePlan({ profile, problems, target }: MeshPlan, wanted: string | undefined): void {
  if (problems.length > 0)
    throw new FleetError(
      "PRECONDITION_FAILED",
      `profile ${profile} cannot be applied: ${problems.join("; ")}`,
    );
  if (wanted === undefined || wanted === target.operation) return;
  throw new FleetError(
    "PRECONDITION_FAILED",
    `the plan is ${target.operation} now, not ${wanted}: members or settings changed; see --what-if`,
  );
}

function parseTimeout(text: string): number {
  return parseWhole("--timeout", text, { min: 1, max: 3600 }) * 1000;
}

export function list(flags: WithList): Promise<void> {
  return onHub("mesh list", flags, async ({ hub, signal }) => {
    const { items } = await hub.list(CLUSTER_MESH_PROFILES, { signal });
    printText(renderProfiles(items, flags.output));
  });
}

export function show(name: string, flags: WithResult): Promise<void> {
  return onHub("mesh show", flags, async ({ hub, signal }) => {
    printText(renderProfile(await getProfile(hub, name, signal), flags.output));
  });
}

export function listMembers(
  name: string,
  flags: WithList & { readonly selector?: string | undefined },
): Promise<void> {
  return onHub("mesh list-members", flags, async ({ hub, deps, signal }) => {
    const { members } = await readMesh(hub, signal);
    const profile = await getProfile(hub, name, signal);
    const pairs = flags.selector === undefined ? undefined : checkSelector("--selector", flags.selector);
    const matches = pairs === undefined ? () => true : matcherOfPairs(pairs);
    const labels = new Map(members.map((it) => [it.metadata.name, it.metadata.labels]));
    const rows = memberRows(profile, members).filter((it) => matches(labels.get(it.name)));
    printText(renderMembers(rows, flags.output, clockOfServer(hub, deps.clock).now()));
  });
}

export function status(name: string, flags: WithResult): Promise<void> {
  return onHub("mesh status", flags, async ({ hub, deps, signal }) => {
    const profile = await getProfile(hub, name, signal);
    const nowMs = clockOfServer(hub, deps.clock).now();
    const identities = await readIdentities(hub, viewNamespaceOf(profile.metadata.name), signal);
    const facts = { version: VERSION, nowMs, identities };
    const summary = summarizeMesh(profile, await readMesh(hub, signal), facts);
    printText(renderMeshStatus(summary, flags.output, nowMs));
    if (summary.state !== "Connected") process.exitCode = UNHEALTHY;
  });
}

type WithTimeout = WithResult & { readonly timeout: string };

export function remove(
  name: string,
  flags: WithTimeout & { readonly disconnect?: true | undefined },
): Promise<void> {
  return onHub("mesh delete", flags, async ({ hub, deps, signal }) => {
    const timeoutMs = parseTimeout(flags.timeout);
    const profile = await getProfile(hub, name, signal);
    const members = profile.spec.applied?.members ?? [];
    if (members.length > 0 && flags.disconnect !== true)
      throw new FleetError(
        "PRECONDITION_FAILED",
        `profile ${name} has ${members.length} members: pass --disconnect to remove them first, or select others and apply it`,
      );
    if (members.length > 0) {
      const plan = planFor(await readMesh(hub, signal), profile, "none");
      await applyPlan(hub, { plan, profile, options: { wait: true, timeoutMs } }, deps, signal);
    }
    await hub.delete(CLUSTER_MESH_PROFILES, objectKey(undefined, name), { signal });
    printText(flags.output === "text" ? `deleted profile ${name}` : renderProfile(profile, flags.output));
  });
}

export function wait(name: string, flags: WithTimeout): Promise<void> {
  return onHub("mesh wait", flags, async ({ hub, deps, signal }) => {
    const timeoutMs = parseTimeout(flags.timeout);
    const profile = await getProfile(hub, name, signal);
    const done = await untilConnected(hub, profile, { ...deps, timeoutMs }, signal);
    printText(flags.output === "text" ? describe(done) : renderProfile(done, flags.output));
  });
}
