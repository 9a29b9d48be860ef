import { describe, expect, it } from "vitest";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { soundImport } from "./sound-import.ts";

const SOUND: ImportedService["spec"] = {
  service: { namespace: "shop", name: "web" },
  type: "ClusterSetIP",
  ports: [{ name: "http", protocol: "TCP", port: 80, appProtocol: "kubernetes.io/h2c" }],
  ipFamilies: ["IPv4", "IPv6"],
  sessionAffinity: "ClientIP",
  sessionAffinityConfig: { clientIP: { timeoutSeconds: 10 } },
  trafficDistribution: "PreferClose",
  labels: { "example.com/team": "a" },
  annotations: { "example.com/Note": "anything\n" },
  clusters: [{ cluster: "b", ports: [{ name: "http", importedAs: "http" }] }],
};

describe("a service that the hub offers", () => {
  it("is taken as it is where all of it is sound", () => {
    expect(soundImport(SOUND)).toEqual(SOUND);
  });

  it("is taken without what one exporter brought and no API server would take", () => {
    const bad = 'x" } ; flush ruleset\n';
    expect(
      soundImport({
        ...SOUND,
        ports: [...SOUND.ports, { name: bad, port: 99 }, { name: "big", port: 70_000 }],
        labels: { ...SOUND.labels, "not/a/valid/label!": "x", ok: "\u001B[31m" },
        annotations: { ...SOUND.annotations, "not/a/valid/key": "x" },
        clusters: [...SOUND.clusters, { cluster: "m", ports: [{ name: bad, importedAs: bad }] }],
      }),
    ).toEqual({ ...SOUND, clusters: [...SOUND.clusters, { cluster: "m", ports: [] }] });
    const { sessionAffinityConfig: _config, trafficDistribution: _distribution, ...rest } = SOUND;
    expect(
      soundImport({
        ...SOUND,
        sessionAffinityConfig: { clientIP: { timeoutSeconds: -1 } },
        trafficDistribution: "Far",
        ipFamilies: ["IPv4", "IPv4", "IPv6"],
      }),
    ).toEqual(rest);
  });
});
