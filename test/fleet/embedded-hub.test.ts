/** A hub without a cluster: `fairlead hub --embedded`, with members that join it by the command. */

import { type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exec, start } from "@fairlead/base/exec.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  exportBy,
  sliceOf,
  startFleet,
  testDeps,
  type TestFleet,
} from "../support/fleet.ts";
import { Witness } from "../support/hub-move.ts";
import { RunsInProgress } from "../support/runs-in-progress.ts";
import { eventually } from "../support/waiting.ts";

const FAIRLEAD = fileURLToPath(new URL("../../bin/fairlead", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "embedded-hub-"));
const kubeconfig = join(folder, "admin.kubeconfig");
const MEMBERS = ["a", "b"];
let fleet: TestFleet;
let hub: ChildProcess | undefined;
let hubOfCluster: ChildProcess | undefined;
let memberProgram: ChildProcess | undefined;
let runs: RunsInProgress;
let port = "0";

async function startProgram(args: readonly string[]): Promise<ChildProcess> {
  const program = start(FAIRLEAD, args, {
    stdio: ["ignore", "inherit", "inherit", "pipe"],
  });
  const ready = program.stdio[3];
  if (ready === null || ready === undefined) throw new Error("no pipe");
  const ended = once(program, "exit").then(() =>
    Promise.reject(new Error("the program ended before it was ready")),
  );
  await Promise.race([once(ready, "data"), ended]);
  return program;
}

async function startHub(): Promise<void> {
  const args = [
    "hub",
    "--embedded",
    "--data",
    folder,
    "--port",
    port,
    "--ready-fd",
    "3",
    "--log-level",
    "error",
  ];
  hub = await startProgram(args);
  port = /https:\/\/127\.0\.0\.1:(\d+)/.exec(readFileSync(kubeconfig, "utf8"))?.[1] ?? "";
}

async function stop(signal: NodeJS.Signals, program = hub): Promise<void> {
  if (program === undefined || program.exitCode !== null || program.signalCode !== null) return;
  program.kill(signal);
  await once(program, "exit");
}

/** One member is the real program, too. */
async function startMember(): Promise<void> {
  await fleet.agents.get("b")?.stop();
  const own = fleet.members.get("b")?.server.kubeconfig ?? "";
  memberProgram = await startProgram([
    "member",
    "--kubeconfig",
    own,
    "--ready-fd",
    "3",
    "--log-level",
    "error",
  ]);
}

const fairlead = (...args: readonly string[]) => exec(FAIRLEAD, args);
const imported = (want: readonly string[]) =>
  eventually(fleet.client("b"), ENDPOINT_SLICES, (all) => {
    const got = addressesOf(all.filter((it) => it.metadata.namespace === "work"));
    return JSON.stringify(got.toSorted()) === JSON.stringify(want);
  });

beforeAll(async () => {
  fleet = await startFleet({ members: MEMBERS, join: [], placement: true, upgradable: MEMBERS });
  await fleet.hubProgram.stop();
  await Promise.all([startHub(), startMember()]);
}, 180_000);
afterAll(async () => {
  for (const it of [memberProgram, hub, hubOfCluster]) await stop("SIGKILL", it);
  await fleet[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

it("is joined by clusters, which use each other's services, and continues where it was killed", async () => {
  await Promise.all(
    MEMBERS.map((name) => {
      const member = fleet.members.get(name)?.server.kubeconfig ?? "";
      const clusters = ["--hub-kubeconfig", kubeconfig, "--member-kubeconfig", member];
      return fairlead("join", name, ...clusters, "--agent", "none");
    }),
  );
  await ensureNamespace(fleet.client("b"), "work");
  await deploy(fleet.client("a"), { addresses: ["10.1.0.1"] });
  await exportBy("mcs", fleet.client("a"));
  await imported(["10.1.0.1"]);
  await stop("SIGKILL");
  const slice = sliceOf({ addresses: ["10.1.0.1", "10.1.0.2"] });
  await fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey("work", slice.metadata.name), {
    endpoints: slice.endpoints,
  });
  await startHub();
  await imported(["10.1.0.1", "10.1.0.2"]);
  const { stdout } = await fairlead("status", "--hub-kubeconfig", kubeconfig);
  expect(stdout).toMatch(/^a +.*\n(.*\n)*b +/m);
});

it("places resources on members, and runs updates of both kinds", async () => {
  await using client = connect(await loadKubeconfig(kubeconfig), testDeps("embedded"));
  runs = await RunsInProgress.start(client, fleet, MEMBERS);
  const { stdout } = await fairlead("placement", "status", "web", "--kubeconfig", kubeconfig);
  expect(stdout).toMatch(/^a +/m);
});

// The command that is repeated waits 10 s for the one that was killed: time for the refusals, which need no hub.
it.concurrent("is left by its fleet for a hub on a cluster by a command, which is killed and repeated, and gets it back", async () => {
  const cluster = fleet.hub.server.kubeconfig;
  hubOfCluster = await startProgram([
    "hub",
    "--kubeconfig",
    cluster,
    "--ready-fd",
    "3",
    "--log-level",
    "error",
  ]);
  const witnesses = await Promise.all(MEMBERS.map((it) => Witness.of(it, fleet.client(it), ["work", "web"])));
  const command = ["hub", "move", "--from", kubeconfig, "--to", cluster];
  expect((await fairlead(...command, "--dry-run")).stdout).toContain("call 2 members to the hub at");
  await killedWhen("has the fleet", command);
  const { stdout } = await fairlead(...command, "-o", "json");
  expect(JSON.parse(stdout)).toEqual({ moved: MEMBERS, away: [] });
  // The former hub is not needed any more.
  await stop("SIGTERM");
  await runs.finish(fleet.hub.client);
  for (const it of witnesses) await it.caughtUp();
  await startHub();
  await fairlead(...command, "--back");
  await stop("SIGTERM", hubOfCluster);
  const slice = sliceOf({ addresses: ["10.1.0.1", "10.1.0.2", "10.1.0.3"] });
  await fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey("work", slice.metadata.name), {
    endpoints: slice.endpoints,
  });
  await imported(["10.1.0.1", "10.1.0.2", "10.1.0.3"]);
  for (const it of witnesses) {
    await it.caughtUp();
    await it[Symbol.asyncDispose]();
  }
  expect(witnesses.flatMap((it) => it.seen)).toEqual([]);
}, 180_000);

/** As a power cut does, when the command has said `said`. */
async function killedWhen(said: string, args: readonly string[]): Promise<void> {
  const moving = start(FAIRLEAD, args, { stdio: ["ignore", "inherit", "pipe"] });
  let text = "";
  for await (const data of moving.stderr ?? []) {
    text += String(data);
    if (text.includes(said)) moving.kill("SIGKILL");
  }
  expect(text).toContain(said);
}

it.concurrent.each([
  [["--embedded"], "--embedded needs --data"],
  [["--embedded", "--data", folder, "--kubeconfig", "x"], "--embedded and --kubeconfig exclude each other"],
  [["--data", folder], "--data is for --embedded"],
  [["--embedded", "--data", folder, "--bind-address", "hub"], "an IPv4 or IPv6 address is expected"],
] as const)("refuses %j", async (flags, message) => {
  await expect(fairlead("hub", ...flags)).rejects.toThrow(message);
});
