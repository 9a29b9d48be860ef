/** Examples that other projects publish, with packets: Fleetboard's between members behind NAT that have the same addresses. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { isReady } from "@fairlead/fleet/domain/pods.ts";
import { eventually, until } from "../support/waiting.ts";
import { checkout, startLab, type TestLab } from "../support/lab-fixture.ts";
import { untilConnected } from "./parallel-lab.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const SERVER = "member-1";
const CLIENT = "member-2";
let lab: TestLab;

describeOnKernel("the example of Fleetboard", () => {
  beforeAll(async () => {
    lab = await startLab({
      name: "eboard",
      flags: ["--topology", "nat", "--nat", "friendly", "--service-imports", "manual"],
    });
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it("answers by its name from the pod that it has in another cluster", async () => {
    const folder = `${checkout}test/compat/fleetboard/`;
    await lab.kubectl(SERVER, ["create", "-f", `${folder}server.yaml`]);
    await lab.kubectl(CLIENT, ["create", "-f", `${folder}client.yaml`]);
    const [pod] = await eventually(
      await lab.client(CLIENT),
      PODS,
      (all) => all.length > 0 && all.every(isReady),
      { namespace: "default" },
    );
    await untilConnected(lab, [SERVER, CLIENT]);
    const words = "-c alpine -- curl -sS -m 5 nginx-svc.default.svc.fleetboard.local";
    const curl = ["exec", pod?.metadata.name ?? "", ...words.split(" ")];
    const page = await until(
      "the service answers",
      async () => {
        const { stdout, stderr } = await lab.kubectl(CLIENT, curl, { allowFailure: true });
        return `${stdout}${stderr}`;
      },
      (it) => it.includes("</html>"),
      { timeoutMs: 60_000 },
    );
    expect(page).toContain("<title>Welcome to nginx!</title>");
    const ash = await lab.kubectl(CLIENT, [
      "exec",
      pod?.metadata.name ?? "",
      "-c",
      "busybox",
      "--",
      "ash",
      "-c",
      "echo here",
    ]);
    expect(ash.stdout).toBe("here\n");
  });
});
