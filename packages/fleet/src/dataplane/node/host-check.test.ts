import { describe, expect, it } from "vitest";
import { type Echo, hasFailed, type HostFacts, judgeHost } from "./host-check.ts";

const OWN = { IPv4: "10.112.8.1", IPv6: "fd00:112:8::1" } as const;
const FACTS: HostFacts = {
  routeDevice: new Map([
    ["IPv4", "fl-host"],
    ["IPv6", "fl-host"],
  ]),
  rpFilter: 2,
};

function echo(of: Partial<Echo> & { readonly pod?: string } = {}): Echo {
  const { pod, ...rest } = of;
  const family = of.family ?? "IPv4";
  return { from: { pod }, family, to: OWN[family], hasArrived: true, isAnswered: true, ...rest };
}

const lost = { hasArrived: false, isAnswered: false };
const unanswered = { isAnswered: false };

describe("the self-test of the node's route to fleet addresses", () => {
  it("passes when the node and a pod are answered", () => {
    expect(judgeHost([echo(), echo({ pod: "work/a" })], undefined)).toEqual({
      type: "HostRouted",
      status: "True",
      reason: "Answered",
      message: "The node, and pods without an interface of their own, can reach fleet addresses.",
    });
    expect(judgeHost([echo()], undefined).message).toBe("The node can reach fleet addresses.");
  });

  it("says where requests of the node go if a policy rule hides the route", () => {
    const facts = { ...FACTS, routeDevice: new Map([["IPv4", "eth0"] as const]) };
    expect(judgeHost([echo(lost)], facts)).toMatchObject({
      status: "False",
      reason: "RouteShadowed",
      message:
        'An echo request over IPv4 from the node to 10.112.8.1 leaves by the device eth0: a policy rule hides the route to fl-host; see "ip rule" and "ip route get 10.112.8.1".',
    });
  });

  it("names the firewall if requests of the node are dropped", () => {
    expect(judgeHost([echo({ ...lost, family: "IPv6" })], FACTS)).toMatchObject({
      reason: "RequestsLost",
      message:
        "An echo request over IPv6 from the node to fd00:112:8::1 is lost: have the firewall of the node accept packets that leave by fl-host.",
    });
  });

  it("names the reverse-path filter if answers are dropped and it is strict", () => {
    expect(judgeHost([echo(unanswered)], { ...FACTS, rpFilter: 1 })).toMatchObject({
      reason: "AnswersLost",
      message:
        "An echo request over IPv4 from the node to 10.112.8.1 arrives in the namespace fleet, but its answer is lost: have the firewall of the node accept packets that come from fl-host, or set net.ipv4.conf.all.rp_filter and net.ipv4.conf.fl-host.rp_filter to 2 (now 1, strict).",
    });
    expect(judgeHost([echo(unanswered)], FACTS).message).not.toContain("rp_filter");
  });

  it("names the network plugin if requests of pods are not forwarded", () => {
    const { reason, message } = judgeHost([echo(), echo({ ...lost, pod: "work/a" })], FACTS);
    expect(reason).toBe("RequestsLost");
    expect(message).toContain("from the pod work/a to 10.112.8.1 is lost: have the network plugin");
  });

  it("passes while one pod of a family is answered: a policy may hold the others", () => {
    const pods = [echo({ ...lost, pod: "work/a" }), echo({ pod: "work/b" })];
    expect(hasFailed([echo(), ...pods])).toBe(false);
    expect(hasFailed([echo(), ...pods, echo({ ...lost, pod: "work/a", family: "IPv6" })])).toBe(true);
  });

  it("has a message of bounded length", () => {
    const pods = Array.from({ length: 3 }, (_, at) =>
      echo({ ...lost, pod: `${"n".repeat(63)}/${"p".repeat(253)}${at}` }),
    );
    const { message } = judgeHost([...pods, ...pods, echo(lost)], FACTS);
    expect(message).toContain("3 more fail.");
    expect(message.length).toBeLessThan(4096);
  });
});
