import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Pod, Volume } from "@fairlead/kube/api/core/v1/types.ts";
import { configNames, tokenWishes } from "./config-names.ts";
import { volumeBinds } from "./mounts.ts";
import { writeVolume } from "./volume-writer.ts";
import { planVolume, type VolumePlan } from "./volumes.ts";

const pod: Pod = {
  metadata: { name: "p", namespace: "n", labels: { b: "2", a: '1"' } },
  spec: { containers: [{ name: "c" }] },
};

function plan(volume: object, token?: string): VolumePlan {
  return planVolume(
    { name: "v", ...volume },
    {
      pod,
      place: { podIPs: [], hostIPs: [] },
      sources: {
        configMap: (name) =>
          name === "cm"
            ? {
                metadata: { name },
                data: { k: "text" },
                binaryData: { b: Buffer.from([0, 255]).toString("base64") },
              }
            : undefined,
        secret: (name) =>
          name === "s"
            ? { metadata: { name }, data: { pw: Buffer.from("x").toString("base64") } }
            : undefined,
      },
      token: () => token,
      capacity: { cpu: "2" },
    },
  );
}

function filesOf(it: VolumePlan): Record<string, string> {
  if (it.kind === "empty") return {};
  return Object.fromEntries(
    [...it.files].map(([path, { content, mode }]) => [
      path,
      `${content.toString("latin1")} ${mode.toString(8)}`,
    ]),
  );
}

describe("the plan of a volume", () => {
  it("holds all keys of a ConfigMap or Secret, or those that are chosen, with their modes", () => {
    expect(filesOf(plan({ configMap: { name: "cm" } }))).toEqual({ k: "text 644", b: "\u0000ÿ 644" });
    expect(filesOf(plan({ secret: { secretName: "s", defaultMode: 0o400 } }))).toEqual({ pw: "x 400" });
    const items = [{ key: "k", path: "deep/er/name", mode: 0o600 }];
    expect(filesOf(plan({ configMap: { name: "cm", items } }))).toEqual({ "deep/er/name": "text 600" });
  });

  it("joins the sources of a projected volume", () => {
    const sources = [
      { serviceAccountToken: { path: "token" } },
      { configMap: { name: "cm", items: [{ key: "k", path: "ca.crt" }] } },
      { downwardAPI: { items: [{ path: "labels", fieldRef: { fieldPath: "metadata.labels" } }] } },
    ];
    expect(filesOf(plan({ projected: { sources } }, "secret"))).toEqual({
      token: "secret 644",
      "ca.crt": "text 644",
      labels: 'a="1\\""\nb="2" 644',
    });
    expect(() => plan({ projected: { sources } })).toThrow("was not issued yet");
  });

  it.each([
    [{ configMap: { name: "none" } }, 'configmap "none" not found'],
    [{ secret: { secretName: "none" } }, 'secret "none" not found'],
    [
      { configMap: { name: "cm", items: [{ key: "none", path: "x" }] } },
      "references non-existent config key: none",
    ],
    [{ configMap: { name: "cm", items: [{ key: "k", path: "../x" }] } }, "is not a path inside the volume"],
    [
      { configMap: { name: "cm", items: [{ key: "k", path: "a/../../x" }] } },
      "is not a path inside the volume",
    ],
    [{ hostPath: { path: "/" } }, "hostPath is refused"],
    [{ persistentVolumeClaim: { claimName: "c" } }, "no volumes of the kind persistentVolumeClaim"],
  ])("refuses %j", (volume, message) => {
    expect(() => plan(volume)).toThrow(message);
  });

  it("has files of its own mode, and provides values of the container", () => {
    const items = [
      { path: "name", fieldRef: { fieldPath: "metadata.name" }, mode: 0o400 },
      { path: "cpu", resourceFieldRef: { containerName: "c", resource: "limits.cpu", divisor: "1m" } },
    ];
    expect(filesOf(plan({ downwardAPI: { items, defaultMode: 0o440 } }))).toEqual({
      name: "p 400",
      cpu: "2000 440",
    });
    expect(() => plan({ projected: { sources: [{ clusterTrustBundle: { path: "x" } }] } })).toThrow(
      "no projected volumes of the kind clusterTrustBundle",
    );
  });

  it("is in memory if it is bounded or requests it", () => {
    expect(plan({ emptyDir: {} })).toEqual({ kind: "empty", inMemory: false, sizeBytes: undefined });
    expect(plan({ emptyDir: { sizeLimit: "1Mi" } })).toMatchObject({ inMemory: true, sizeBytes: 2 ** 20 });
    expect(plan({ emptyDir: { medium: "Memory" } })).toMatchObject({ inMemory: true, sizeBytes: undefined });
  });

  it("goes without an optional source that is missing", () => {
    expect(filesOf(plan({ configMap: { name: "none", optional: true } }))).toEqual({});
  });
});

describe("what a pod reads", () => {
  it("is found in its volumes and in the environment of all its containers", () => {
    const reading: Pod = {
      metadata: { name: "p" },
      spec: {
        volumes: [
          { name: "a", configMap: { name: "cm1" } },
          {
            name: "b",
            projected: {
              sources: [{ secret: { name: "s1" } }, { serviceAccountToken: { path: "t", audience: "x" } }],
            },
          },
        ],
        initContainers: [{ name: "i", envFrom: [{ configMapRef: { name: "cm2" } }] }],
        containers: [
          { name: "c", env: [{ name: "E", valueFrom: { secretKeyRef: { name: "s2", key: "k" } } }] },
        ],
      },
    };
    const names = configNames(reading);
    expect([[...names.configMaps].toSorted(), [...names.secrets].toSorted()]).toEqual([
      ["cm1", "cm2"],
      ["s1", "s2"],
    ]);
    expect(tokenWishes(reading)).toEqual([{ audience: "x", expirationSeconds: 3600 }]);
  });
});

describe("a volume on disk", () => {
  let folder = "";
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "fairlead-volume-"));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const files = (entries: Record<string, string>): VolumePlan => ({
    kind: "files",
    files: new Map(
      Object.entries(entries).map(([path, text]) => [path, { content: Buffer.from(text), mode: 0o640 }]),
    ),
  });

  it("changes all its files at once, and keeps nothing of the files before", () => {
    expect(writeVolume(folder, files({ a: "1", "d/b": "1" }))).toBe(true);
    const before = readlinkSync(join(folder, "..data"));
    expect(statSync(join(folder, "a")).mode & 0o777).toBe(0o640);
    expect(writeVolume(folder, files({ a: "2", c: "2" }))).toBe(true);
    expect([readFileSync(join(folder, "a"), "utf8"), readFileSync(join(folder, "c"), "utf8")]).toEqual([
      "2",
      "2",
    ]);
    const now = readlinkSync(join(folder, "..data"));
    expect(readdirSync(folder).toSorted()).toEqual(["..data", now, "a", "c"].toSorted());
    expect(now).not.toBe(before);
  });

  it("belongs to the group of its pod, which may read what the owner may", () => {
    writeVolume(folder, files({ a: "1" }), 2000);
    expect(statSync(join(folder, "a"))).toMatchObject({ gid: 2000, mode: 0o100640 });
    const own = join(folder, "own");
    writeVolume(own, { kind: "empty", inMemory: false, sizeBytes: undefined }, 2000);
    expect(statSync(own)).toMatchObject({ gid: 2000, mode: 0o042777 });
    expect(writeVolume(folder, files({ a: "1" }), 2000)).toBe(false);
  });

  it("is not written if it is equal", () => {
    writeVolume(folder, files({ a: "1" }));
    const before = readlinkSync(join(folder, "..data"));
    expect(writeVolume(folder, files({ a: "1" }))).toBe(false);
    expect(readlinkSync(join(folder, "..data"))).toBe(before);
  });

  it("is mounted for writing only when it is the pod's own", () => {
    const volumes: Volume[] = [
      { name: "own", emptyDir: {} },
      { name: "given", configMap: { name: "cm" } },
    ];
    const mounts = [
      { name: "own", mountPath: "/own" },
      { name: "given", mountPath: "/given" },
    ];
    const env = new Map([["WHO", "me"]]);
    const binds = volumeBinds({ name: "c", volumeMounts: mounts }, volumes, () => folder, env);
    expect(binds.map((it) => it.readOnly)).toEqual([false, true]);
    for (const mountPath of ["/", "a\nb", "/x:y", "/a/.."])
      expect(() =>
        volumeBinds({ name: "c", volumeMounts: [{ name: "own", mountPath }] }, volumes, () => folder, env),
      ).toThrow("mountPath");
    const expressed = (subPathExpr: string) =>
      volumeBinds(
        { name: "c", volumeMounts: [{ name: "own", mountPath: "/x", subPathExpr }] },
        volumes,
        () => folder,
        env,
      );
    expect(expressed("of-$(WHO)")[0]?.subPath).toEqual({ path: "of-me", canCreate: true });
    expect(() => expressed("$(UNSET)")).toThrow('missing value for "UNSET"');
  });
});
