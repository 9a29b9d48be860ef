import { describe, expect, it } from "vitest";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { ConfigError } from "./environment.ts";
import { fsUserOf, identityCommand, identityOf } from "./identity.ts";

const pod = (securityContext: Record<string, unknown> = {}, containers: readonly object[] = []): Pod => ({
  metadata: { name: "p", namespace: "n", uid: "u" },
  spec: {
    securityContext,
    containers: containers.map((it, at) => ({ name: `c${at}`, securityContext: { ...it } })),
  },
});
const of = (own: Record<string, unknown>, ofPod: Record<string, unknown> = {}) =>
  identityOf(pod(ofPod), { name: "c", securityContext: own });

describe("the user that a container runs as", () => {
  it("is taken from the container, else from its pod, else is root", () => {
    expect(of({})).toMatchObject({ uid: 0, gid: 0, groups: [] });
    expect(of({}, { runAsUser: 5, runAsGroup: 6 })).toMatchObject({ uid: 5, gid: 6 });
    expect(of({ runAsUser: 7 }, { runAsUser: 5, runAsGroup: 6 })).toMatchObject({ uid: 7, gid: 6 });
    expect(of({}, { supplementalGroups: [1, 2], fsGroup: 3 }).groups).toEqual([1, 2, 3]);
  });

  it("is never root if runAsNonRoot is set", () => {
    expect(() => of({ runAsNonRoot: true })).toThrow(ConfigError);
    expect(() => of({ runAsUser: 0 }, { runAsNonRoot: true })).toThrow(
      `container's runAsUser breaks non-root policy (pod: "p_n(u)", container: c)`,
    );
    expect(of({ runAsUser: 1 }, { runAsNonRoot: true }).uid).toBe(1);
    expect(of({ runAsNonRoot: false }, { runAsNonRoot: true }).uid).toBe(0);
  });

  it.each([
    [{ drop: ["ALL"] }, []],
    [{ drop: ["ALL"], add: ["NET_ADMIN"] }, ["net_admin"]],
    [{ drop: ["all"], add: ["CAP_CHOWN"] }, ["chown"]],
    [{ drop: ["ALL"], add: ["$(reboot)", "chown,+sys_admin"] }, []],
  ])("with the capabilities %j may do %j", (capabilities, expected) => {
    expect(of({ capabilities }).capabilities).toEqual(expected);
  });

  it("has all capabilities only if it is privileged or requests all", () => {
    expect(of({ privileged: true }).capabilities).toBeUndefined();
    expect(of({ capabilities: { add: ["ALL"] } }).capabilities).toBeUndefined();
    const most = of({ capabilities: { add: ["ALL"], drop: ["SYS_ADMIN"] } }).capabilities;
    expect([most?.includes("sys_admin"), most?.includes("net_admin")]).toEqual([false, true]);
    expect(identityCommand(of({ privileged: true }))).toEqual([]);
  });

  it("is given up before the program starts", () => {
    const own = { runAsUser: 5, allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } };
    expect(identityCommand(of(own, { fsGroup: 9 }))).toEqual([
      "/usr/bin/setpriv",
      "--reuid=5",
      "--regid=0",
      "--groups=9",
      "--bounding-set=-all",
      "--inh-caps=-all",
      "--no-new-privs",
      "--",
    ]);
  });

  it("is one user for the whole pod only if all its containers have the same", () => {
    expect(fsUserOf(pod({ runAsUser: 5 }, [{}, {}]))).toBe(5);
    expect(fsUserOf(pod({ runAsUser: 5 }, [{}, { runAsUser: 6 }]))).toBeUndefined();
    expect(fsUserOf(pod({}, [{}]))).toBeUndefined();
  });
});
