/** The story of a fleet: what is staged on the hub runs on members, changes in stages, and the clusters under it are upgraded. */

import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { type Demo, fairlead, kubectl, root, streamKubectl } from "./cluster.ts";
import { parseTry, requestLoop } from "./requests.ts";
import { chapter, countBy, say } from "./story.ts";

const MEMBERS = ["member-1", "member-2"] as const;
const OTHER = "member-3";
const URL = "http://cart.shop.svc.clusterset.local/";
/** A busy machine must not fail the demo. Unit: milliseconds. */
const TIMEOUT_MS = 90_000;

/** Flags of `fairlead lab up` for this story. */
export const FLEET_LAB = ["--kubernetes-version", "1.35", "--upgrades", "--nodes", "1"] as const;

export async function showFleet(demo: Demo): Promise<void> {
  chapter("An application on the hub, where nothing runs");
  await run(demo, "hub", ["apply", "-f", "examples/fleet/app.yaml"]);
  say(`pods on the hub: ${(await get(demo, "hub", "pods -A", "{.items}")) === "[]" ? "none" : "some"}`);

  chapter("A placement puts it on each member with a label");
  await run(demo, "hub", ["label", "membercluster", ...MEMBERS, "--overwrite", "tier=shop"]);
  await run(demo, "hub", ["apply", "-f", "examples/fleet/placement.yaml"]);
  await available(demo);
  await command(demo, ["placement", "status", "shop"]);
  await showReplicas(demo);

  chapter("Why there, and not elsewhere");
  await command(demo, ["placement", "explain", "shop"]);

  chapter("Both members export it: a third one uses it by name");
  await run(demo, OTHER, ["create", "namespace", "shop"]);
  await run(demo, OTHER, [
    "-n",
    "shop",
    "run",
    "client",
    "--image=nicolaka/netshoot",
    "--command",
    "--",
    "sleep",
    "36000",
  ]);
  await kubectl(demo, OTHER, ["-n", "shop", "wait", "pod/client", "--for=condition=Ready", "--timeout=90s"]);
  await showAnswers(demo);

  chapter("An override gives the larger member more replicas");
  await run(demo, "hub", ["label", "membercluster", "member-2", "--overwrite", "size=large"]);
  await run(demo, "hub", ["apply", "-f", "examples/fleet/override.yaml"]);
  await replicasBecome(demo, { "member-1": "2", "member-2": "3" });

  chapter("Drift: what is changed in a member is shown, or put back");
  await strategy(demo, { applyStrategy: { whenToApply: "IfNotDrifted" } });
  await run(demo, "member-1", ["-n", "shop", "scale", "deployment", "cart", "--replicas=5"]);
  const drift =
    '{.status.placementStatuses[?(@.clusterName=="member-1")].driftedPlacements[0].observedDrifts[0]}';
  await until(
    "the drift is reported",
    async () => (await get(demo, "hub", "crp shop", drift)) !== "",
    demo.signal,
  );
  say(`the placement reports: ${await get(demo, "hub", "crp shop", drift)}`);
  await strategy(demo, { applyStrategy: { whenToApply: "Always" } });
  await replicasBecome(demo, { "member-1": "2", "member-2": "3" });

  chapter("A change in stages: first the canary, then, after an approval, the rest");
  await strategy(demo, { type: "External" });
  await run(demo, "hub", [
    "label",
    "membercluster",
    "member-1",
    "--overwrite",
    "ring=canary",
    "fairlead.dev/update-group=canary",
  ]);
  await run(demo, "hub", [
    "label",
    "membercluster",
    "member-2",
    "--overwrite",
    "ring=prod",
    "fairlead.dev/update-group=prod",
  ]);
  await run(demo, "hub", ["-n", "shop", "set", "env", "deployment/cart", "COLOUR=blue"]);
  await run(demo, "hub", ["apply", "-f", "examples/fleet/staged-run.yaml"]);
  await coloursBecome(demo, { "member-1": "blue", "member-2": "" });
  await approveStage(demo);
  await coloursBecome(demo, { "member-1": "blue", "member-2": "blue" });
  await run(demo, "hub", [
    "wait",
    "clusterstagedupdaterun/blue",
    "--for=condition=Succeeded",
    "--timeout=90s",
  ]);

  chapter("Kubernetes itself is upgraded, while requests arrive");
  await run(demo, "hub", [
    "annotate",
    "membercluster",
    ...MEMBERS,
    "--overwrite",
    "fairlead.dev/upgrader=External",
  ]);
  await upgradeUnderLoad(demo);

  chapter("The hub stays a hub: what runs pods is refused there");
  await refused(demo, ["apply", "-f", "examples/fleet/stray.yaml"]);

  chapter("And away again, from both members, by deleting the placement");
  await run(demo, "hub", ["delete", "clusterresourceplacement", "shop"]);
  for (const it of MEMBERS)
    await until(
      `the namespace is gone in ${it}`,
      async () =>
        (await get(demo, it, "namespaces", '{.items[?(@.metadata.name=="shop")].metadata.name}')) === "",
      demo.signal,
    );
  say("the namespace shop is gone in member-1 and member-2, and is still on the hub");
}

async function upgradeUnderLoad(demo: Demo): Promise<void> {
  const names: string[] = [];
  const load = streamKubectl(
    demo,
    OTHER,
    ["-n", "shop", "exec", "client", "--", "sh", "-c", requestLoop(URL, 100_000, 0)],
    (line) => {
      const parsed = parseTry(line);
      if (parsed !== undefined) names.push(parsed.cluster ?? "none");
    },
  );
  await run(demo, "hub", ["apply", "-f", "examples/fleet/update-run.yaml"]);
  const state = "{.status.status.state}";
  const isState = (wanted: string) => async (): Promise<boolean> =>
    (await get(demo, "hub", "updaterun to-1-36", state)) === wanted;
  await until("the canary is upgraded", isState("Pending"), demo.signal);
  await showVersions(demo);
  await command(demo, ["updaterun", "status", "to-1-36"]);
  const gate = await get(demo, "hub", "gates", "{.items[0].metadata.name}");
  await command(demo, ["gate", "approve", gate.slice(0, 8)]);
  await until("both are upgraded", isState("Completed"), demo.signal);
  await showVersions(demo);
  load.stop();
  await load.done;
  say(`${names.length} requests during the upgrades: ${countBy(names)}`);
  if (names.includes("none"))
    throw new FleetError("PRECONDITION_FAILED", "a request failed during the upgrade");
}

async function showVersions(demo: Demo): Promise<void> {
  const path = "{range .items[*]}{.metadata.name} {.status.nodeInfo.kubeletVersion}  {end}";
  for (const it of MEMBERS) say(`${it}: ${await get(demo, it, "nodes", path)}`);
}

async function approveStage(demo: Demo): Promise<void> {
  const exists = async (): Promise<boolean> =>
    (await get(demo, "hub", "clusterapprovalrequests", "{.items[*].metadata.name}")).includes(
      "blue-before-prod",
    );
  await until("the run asks for an approval", exists, demo.signal);
  await command(demo, ["placement", "run", "blue"]);
  await command(demo, ["placement", "approve", "blue", "prod", "--before"]);
}

async function available(demo: Demo): Promise<void> {
  const condition = "--for=condition=ClusterResourcePlacementAvailable";
  await run(demo, "hub", ["wait", "clusterresourceplacement/shop", condition, "--timeout=90s"]);
}

async function strategy(demo: Demo, change: object): Promise<void> {
  await run(demo, "hub", [
    "patch",
    "clusterresourceplacement",
    "shop",
    "--type=merge",
    "-p",
    JSON.stringify({ spec: { strategy: change } }),
  ]);
}

async function showReplicas(demo: Demo): Promise<void> {
  for (const it of MEMBERS) say(`${it}: ${await replicas(demo, it)} replicas`);
}

const replicas = (demo: Demo, cluster: string): Promise<string> =>
  get(demo, cluster, "deployment cart -n shop", "{.status.availableReplicas}");
const colour = (demo: Demo, cluster: string): Promise<string> =>
  get(
    demo,
    cluster,
    "deployment cart -n shop",
    '{.spec.template.spec.containers[0].env[?(@.name=="COLOUR")].value}',
  );

async function replicasBecome(demo: Demo, wanted: Readonly<Record<string, string>>): Promise<void> {
  const all = "{.spec.replicas} {.status.replicas} {.status.availableReplicas}";
  for (const [cluster, count] of Object.entries(wanted))
    await until(
      `${cluster} has ${count} replicas`,
      async () => (await get(demo, cluster, "deployment cart -n shop", all)) === `${count} ${count} ${count}`,
      demo.signal,
    );
  await showReplicas(demo);
}

async function coloursBecome(demo: Demo, wanted: Readonly<Record<string, string>>): Promise<void> {
  for (const [cluster, value] of Object.entries(wanted))
    await until(
      `${cluster} has the colour`,
      async () => (await colour(demo, cluster)) === value,
      demo.signal,
    );
  say(
    Object.entries(wanted)
      .map(([cluster, value]) => `${cluster}: ${value === "" ? "unchanged" : value}`)
      .join(", "),
  );
}

async function showAnswers(demo: Demo): Promise<void> {
  await until(
    "both members answer",
    async () => {
      const names: string[] = [];
      const args = ["-n", "shop", "exec", "client", "--", "sh", "-c", requestLoop(URL, 12, 0)];
      await streamKubectl(demo, OTHER, args, (line) => {
        const parsed = parseTry(line);
        if (parsed !== undefined) names.push(parsed.cluster ?? "none");
      }).done;
      if (new Set(names).size !== 2 || names.includes("none")) return false;
      say(`12 requests in ${OTHER}: ${countBy(names)}`);
      return true;
    },
    demo.signal,
  );
}

async function refused(demo: Demo, args: readonly string[]): Promise<void> {
  say(`$ kubectl --context hub ${args.join(" ")}`);
  try {
    await kubectl(demo, "hub", args.map(inCheckout));
  } catch (error) {
    say(messageOf(error).split(": ").slice(-2).join(": ").trim());
    return;
  }
  throw new FleetError("PRECONDITION_FAILED", "the hub accepted a ReplicaSet");
}

/** Commands are shown as people type them in the checkout. */
function inCheckout(argument: string): string {
  return argument.startsWith("examples/") ? `${root}${argument}` : argument;
}

async function run(demo: Demo, cluster: string, args: readonly string[]): Promise<void> {
  say(`$ kubectl --context ${cluster} ${args.join(" ")}`);
  await kubectl(demo, cluster, args.map(inCheckout));
}

async function get(demo: Demo, cluster: string, what: string, path: string): Promise<string> {
  return (await kubectl(demo, cluster, ["get", ...what.split(" "), "-o", `jsonpath=${path}`])).trim();
}

async function command(demo: Demo, args: readonly string[]): Promise<void> {
  say(`$ fairlead ${args.join(" ")} --hub-context hub`);
  const hub = ["--kubeconfig", demo.kubeconfig, "--hub-context", "hub"];
  const said = await fairlead([...args, ...hub], demo.signal);
  if (said.trim() !== "") say(said.trimEnd());
}

async function until(what: string, isDone: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  const deadlineMs = systemClock.monotonic() + TIMEOUT_MS;
  while (!(await isDone())) {
    if (systemClock.monotonic() > deadlineMs)
      throw new FleetError("TIMED_OUT", `after ${TIMEOUT_MS / 1000} s: not seen that ${what}`);
    await delay(systemClock, 200, signal);
  }
}
