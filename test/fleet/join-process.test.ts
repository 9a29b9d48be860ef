/** `fairlead join` as a process, which people interrupt. */

import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES, SECRETS, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { start } from "@fairlead/base/exec.ts";
import { startFleet, type TestFleet } from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";

const MAIN = fileURLToPath(new URL("../../packages/fairlead/src/main.ts", import.meta.url));

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a"], join: [] });
  // No agent answers: the join waits.
  await fleet.agents.get("a")!.stop();
});
afterAll(() => fleet[Symbol.asyncDispose]());

it.each(["SIGINT", "SIGTERM"] as const)(
  "rolls back, reports it and ends with 130 when %s interrupts it",
  async (signal) => {
    const [hub, member] = [fleet.hub, fleet.members.get("a")!].map((it) => it.server.kubeconfig);
    const files = ["--hub-kubeconfig", hub ?? "", "--member-kubeconfig", member ?? ""];
    const child = start(process.execPath, [MAIN, "join", "a", ...files, "--agent", "none"], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    const ended = once(child, "close");
    let said = "";
    const waits = Promise.withResolvers<void>();
    child.stderr?.on("data", (chunk: Buffer) => {
      said += chunk.toString("utf8");
      if (said.includes("✓ store the address of the hub in cluster a\n")) waits.resolve();
    });
    await Promise.race([waits.promise, ended]);
    child.kill(signal);
    expect(await ended).toEqual([130, null]);
    expect(said.trimEnd().split("\n").slice(-3)).toEqual([
      `✗ wait until a has joined: interrupted by ${signal}`,
      "↩ roll back",
      `fairlead join: interrupted by ${signal}`,
    ]);
    const client = fleet.client("hub");
    await eventually(client, MEMBER_CLUSTERS, (all) => all.length === 0);
    await eventually(client, NAMESPACES, (all) => all.every((it) => it.metadata.name !== "fleet-member-a"));
    const accounts = (await client.list(SERVICE_ACCOUNTS, { namespace: "fleet-system" })).items;
    expect(accounts.filter((it) => it.metadata.name.startsWith("join-"))).toEqual([]);
    expect((await fleet.client("a").list(SECRETS, { namespace: "fleet-system" })).items).toEqual([]);
  },
);
