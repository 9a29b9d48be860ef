/** The story of a profile: which clusters share a network, what they share in it, and the way back. */

import { FleetError } from "@fairlead/base/errors.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { type Demo, fairlead, kubectl, root, streamKubectl } from "./cluster.ts";
import { parseTry, requestLoop } from "./requests.ts";
import { chapter, countBy, say } from "./story.ts";

const NAME = "shop";
const MEMBERS = ["member-1", "member-2"] as const;
const OTHER = "member-3";
const URL = "http://cart.shop.svc.cluster.local/";
/** A busy machine must not fail the demo. Unit: milliseconds. */
const TIMEOUT_MS = 90_000;

/** Flags of `fairlead lab up` for this story. */
export const MESH_LAB = ["--network-policy", "--nodes", "1"] as const;

export async function showMesh(demo: Demo): Promise<void> {
  chapter("Three clusters without a profile, each with the same application");
  // The lab connects all members; here the user decides.
  await kubectl(demo, "hub", ["delete", "clustermeshprofile", "flat", "--ignore-not-found"]);
  for (const cluster of [...MEMBERS, OTHER]) await run(demo, cluster, ["apply", "-f", "examples/mesh.yaml"]);
  for (const cluster of [...MEMBERS, OTHER])
    for (const it of ["deployment/cart --for=condition=Available", "pod/client --for=condition=Ready"])
      await kubectl(demo, cluster, ["-n", "shop", "wait", ...it.split(" "), "--timeout=90s"]);

  chapter("Two of them get a label, and a profile selects it: nothing changes yet");
  await run(demo, "hub", ["label", "membercluster", ...MEMBERS, "--overwrite", `mesh=${NAME}`]);
  await mesh(demo, ["create", NAME, "--member-selector", `mesh=${NAME}`]);

  chapter("What applying it would change, on the hub and in the members");
  await mesh(demo, ["apply", NAME, "--what-if"]);

  chapter("Apply it");
  await mesh(demo, ["apply", NAME]);
  await mesh(demo, ["list-members", NAME]);

  chapter("The Service has the annotation service.cilium.io/global: both clusters answer");
  await showAnswers(demo, "member-2", [...MEMBERS]);
  say(`${OTHER} is not in the profile, so that its own pods answer there:`);
  await showAnswers(demo, OTHER, [OTHER]);

  chapter("member-1 stops sharing its endpoints, by one annotation");
  await run(demo, "member-1", [
    "-n",
    "shop",
    "annotate",
    "service",
    "cart",
    "--overwrite",
    "service.cilium.io/shared=false",
  ]);
  await showAnswers(demo, "member-2", ["member-2"]);
  await run(demo, "member-1", ["-n", "shop", "annotate", "service", "cart", "service.cilium.io/shared-"]);
  await showAnswers(demo, "member-2", [...MEMBERS]);

  chapter("A network policy in member-1 names a cluster: the other one is cut off");
  const { name, address } = await findPod(demo, "member-1");
  await showDirect(demo, "member-2", address, true);
  await run(demo, "member-1", ["apply", "-f", "examples/mesh-policy.yaml"]);
  await showDirect(demo, "member-2", address, false);
  await showDirect(demo, "member-1", address, true);

  chapter("Why, and what would change it");
  await explain(demo, ["member-2/shop/client", `member-1/shop/${name}`, "8080"]);
  await run(demo, "member-1", ["delete", "-f", "examples/mesh-policy.yaml"]);
  await showDirect(demo, "member-2", address, true);

  chapter("And back: the members and settings before the last plan");
  await mesh(demo, ["apply", NAME, "--rollback"]);
  await mesh(demo, ["delete", NAME]);
}

async function run(demo: Demo, cluster: string, args: readonly string[]): Promise<void> {
  say(`$ kubectl --context ${cluster} ${args.join(" ")}`);
  await kubectl(
    demo,
    cluster,
    args.map((it) => (it.startsWith("examples/") ? `${root}${it}` : it)),
  );
}

async function mesh(demo: Demo, args: readonly string[]): Promise<void> {
  say(`$ fairlead mesh ${args.join(" ")}`);
  const hub = ["--hub-kubeconfig", demo.kubeconfig, "--hub-context", "hub"];
  const said = await fairlead(["mesh", ...args, ...hub], demo.signal);
  if (said.trim() !== "") say(said.trimEnd());
}

/** Asks until each of the clusters has answered, and no other one does. */
async function showAnswers(demo: Demo, from: string, expected: readonly string[]): Promise<void> {
  const wanted = expected.toSorted().join();
  await until(
    `${wanted} answer in ${from}`,
    async () => {
      const names = await ask(demo, from, URL, 12);
      if ([...new Set(names)].toSorted().join() !== wanted) return false;
      say(`12 requests in ${from}: ${countBy(names)}`);
      return true;
    },
    demo.signal,
  );
}

async function showDirect(demo: Demo, from: string, address: string, isAllowed: boolean): Promise<void> {
  const url = `http://${address}:8080/`;
  await until(
    `${from} ${isAllowed ? "reaches" : "does not reach"} ${url}`,
    async () => {
      const [name] = await ask(demo, from, url, 1);
      if ((name !== "none") !== isAllowed) return false;
      say(`${from} asks a pod of member-1: ${isAllowed ? "answered" : "no answer"}`);
      return true;
    },
    demo.signal,
  );
}

async function ask(demo: Demo, from: string, url: string, count: number): Promise<string[]> {
  const names: string[] = [];
  const args = ["-n", "shop", "exec", "client", "--", "sh", "-c", requestLoop(url, count, 0)];
  const stream = streamKubectl(demo, from, args, (line) => {
    const parsed = parseTry(line);
    if (parsed !== undefined) names.push(parsed.cluster ?? "none");
  });
  await stream.done;
  return names;
}

async function findPod(
  demo: Demo,
  cluster: string,
): Promise<{ readonly name: string; readonly address: string }> {
  const path = "jsonpath={.items[0].metadata.name} {.items[0].status.podIP}";
  const args = ["-n", "shop", "get", "pods", "-l", "app=cart", "-o", path];
  const [name = "", address = ""] = (await kubectl(demo, cluster, args)).trim().split(" ");
  return { name, address };
}

/** The verdict on a flow, at both of its ends. */
async function explain(demo: Demo, flow: readonly string[]): Promise<void> {
  say(`$ fairlead policy explain ${flow.join(" ")} --contexts ${MEMBERS.join(",")}`);
  const contexts = ["--kubeconfig", demo.kubeconfig, "--contexts", MEMBERS.join(",")];
  say((await fairlead(["policy", "explain", ...flow, ...contexts], demo.signal)).trimEnd());
}

async function until(what: string, isDone: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  const deadlineMs = systemClock.monotonic() + TIMEOUT_MS;
  while (!(await isDone())) {
    if (systemClock.monotonic() > deadlineMs)
      throw new FleetError("TIMED_OUT", `after ${TIMEOUT_MS / 1000} s: not seen that ${what}`);
    await delay(systemClock, 200, signal);
  }
}
