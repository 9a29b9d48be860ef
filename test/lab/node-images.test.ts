import { afterAll, beforeAll, expect, it } from "vitest";
import type { Container } from "@fairlead/kube/api/core/v1/types.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { NodeWorld } from "./node-world.ts";

describeOnKernel("the program of a catalogue image", () => {
  let world: NodeWorld;
  beforeAll(async () => {
    world = await NodeWorld.create();
    await world.startNode();
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
  });

  const listening = { tcpSocket: { port: 42 }, periodSeconds: 1 };

  it("of socat answers a client also when the program behind it ended before the client said anything", async () => {
    // The program stops its socat, so that it sees the end of the program and the client's word at the same time.
    const program =
      "SYSTEM:kill -STOP $SOCAT_PID; (sleep 0.4; kill -CONT $SOCAT_PID) >/dev/null </dev/null & echo answer";
    const server: Container = {
      name: "main",
      image: "alpine/socat:1.7.4.4",
      args: ["TCP-LISTEN:42,reuseaddr,fork", program],
      readinessProbe: listening,
    };
    await world.createPod("hasty-server", [server]);
    const { status } = await world.untilReady("hasty-server");
    const client = `exec 3<>/dev/tcp/${status?.podIP}/42; sleep 0.1; echo hi >&3; cat <&3`;
    expect(await world.run("bash", "-c", client)).toBe("answer\n");
    await world.deletePod("hasty-server");
  });

  it("of socat serves clients that come all at once", async () => {
    const server: Container = {
      name: "main",
      image: "alpine/socat:1.7.4.4",
      command: ["/bin/sh", "-c"],
      args: [`socat -v -v TCP6-LISTEN:42,crlf,reuseaddr,fork,ipv6only=0 SYSTEM:'echo "pod ip $IP"'`],
      env: [{ name: "IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } }],
      readinessProbe: listening,
    };
    await world.createPod("busy-server", [server]);
    const ip = (await world.untilReady("busy-server")).status?.podIP;
    const ask = `for i in 1 2 3 4 5 6; do (for j in 1 2 3 4 5 6 7 8 9 10; do echo hi | nc -w 2 ${ip} 42; done) & done; wait`;
    const answers = (await world.run("bash", "-c", ask)).split("\r\n");
    expect(answers.filter((it) => it === `pod ip ${ip}`)).toHaveLength(60);
    await world.deletePod("busy-server");
  });

  it("of agnhost is at /agnhost, where it serves and connects", async () => {
    const image = "registry.k8s.io/e2e-test-images/agnhost:2.63.0";
    const ask = "until /agnhost connect 127.0.0.1:80 --timeout=5s; do sleep 0.2; done; set -e";
    await world.createPod("agnhost", [
      { name: "idle", image },
      {
        name: "main",
        image,
        // Serves its port once it was answered on the others.
        command: [
          "/bin/bash",
          "-c",
          `${ask}; for it in 53:udp 9003:sctp; do /agnhost connect 127.0.0.1:\${it%:*} --protocol=\${it#*:} --timeout=5s; done; exec /agnhost serve-hostname --tcp --http=false --port 42`,
        ],
        readinessProbe: listening,
      },
      {
        name: "porter",
        image,
        command: ["/agnhost", "porter"],
        env: [
          { name: "SERVE_UDP_PORT_53", value: "foo" },
          { name: "SERVE_TCP_PORT_80", value: "bar" },
          { name: "SERVE_SCTP_PORT_9003", value: "baz" },
        ],
      },
    ]);
    const ip = (await world.untilReady("agnhost")).status?.podIP;
    expect(await world.run("bash", "-c", `cat </dev/tcp/${ip}/42`)).toBe("agnhost");
    await world.deletePod("agnhost");
  });
});
