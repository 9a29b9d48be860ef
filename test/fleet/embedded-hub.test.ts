/** A hub without a cluster: `fairlead hub --embedded`, with members that join it by the command. */

import { type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exec, start } from "@fairlead/base/exec.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  exportBy,
  sliceOf,
  startFleet,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";

const MAIN = fileURLToPath(new URL("../../packages/fairlead/src/main.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "embedded-hub-"));
const kubeconfig = join(folder, "admin.kubeconfig");
let fleet: TestFleet;
let hub: ChildProcess | undefined;
let port = "0";

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
  hub = start(process.execPath, [MAIN, ...args], { stdio: ["ignore", "inherit", "inherit", "pipe"] });
  const ready = hub.stdio[3];
  if (ready === null || ready === undefined) throw new Error("no pipe");
  const ended = once(hub, "exit").then(() => Promise.reject(new Error("the hub ended before it was ready")));
  await Promise.race([once(ready, "data"), ended]);
  port = /https:\/\/127\.0\.0\.1:(\d+)/.exec(readFileSync(kubeconfig, "utf8"))?.[1] ?? "";
}

async function stopHub(signal: NodeJS.Signals): Promise<void> {
  if (hub === undefined || hub.exitCode !== null) return;
  hub.kill(signal);
  await once(hub, "exit");
}

const fairlead = (...args: readonly string[]) => exec(process.execPath, [MAIN, ...args]);
const imported = (want: readonly string[]) =>
  eventually(fleet.client("b"), ENDPOINT_SLICES, (all) => {
    const got = addressesOf(all.filter((it) => it.metadata.namespace === "work"));
    return JSON.stringify(got.toSorted()) === JSON.stringify(want);
  });

beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b"], join: [] });
  await startHub();
}, 60_000);
afterAll(async () => {
  await stopHub("SIGKILL");
  await fleet[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

it("is joined by clusters, which use each other's services, and continues where it was killed", async () => {
  for (const name of ["a", "b"]) {
    const member = fleet.members.get(name)?.server.kubeconfig ?? "";
    await fairlead(
      "join",
      name,
      "--hub-kubeconfig",
      kubeconfig,
      "--member-kubeconfig",
      member,
      "--agent",
      "none",
    );
  }
  await ensureNamespace(fleet.client("b"), "work");
  await deploy(fleet.client("a"), { addresses: ["10.1.0.1"] });
  await exportBy("mcs", fleet.client("a"));
  await imported(["10.1.0.1"]);
  await stopHub("SIGKILL");
  const slice = sliceOf({ addresses: ["10.1.0.1", "10.1.0.2"] });
  await fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey("work", slice.metadata.name), {
    endpoints: slice.endpoints,
  });
  await startHub();
  await imported(["10.1.0.1", "10.1.0.2"]);
  const { stdout } = await fairlead("status", "--hub-kubeconfig", kubeconfig);
  expect(stdout).toMatch(/^a +.*\n(.*\n)*b +/m);
}, 60_000);

it.each([
  [["--embedded"], "--embedded needs --data"],
  [["--embedded", "--data", folder, "--kubeconfig", "x"], "--embedded and --kubeconfig exclude each other"],
  [["--data", folder], "--data is for --embedded"],
  [["--embedded", "--data", folder, "--bind-address", "hub"], "an IPv4 or IPv6 address is expected"],
] as const)("refuses %j", async (flags, message) => {
  await expect(fairlead("hub", ...flags)).rejects.toThrow(message);
});
