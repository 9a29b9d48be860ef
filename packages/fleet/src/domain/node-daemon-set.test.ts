import { describe, expect, it } from "vitest";
import { nodeDaemonSet } from "./node-daemon-set.ts";

const WANTED = { image: "registry.example/fairlead:0.2.0", isRemoving: false };

function containerOf(exposesMetrics?: boolean) {
  const { spec } = nodeDaemonSet({ ...WANTED, ...(exposesMetrics === undefined ? {} : { exposesMetrics }) });
  return spec?.template?.spec?.containers?.[0];
}

describe("the DaemonSet of node agents", () => {
  it.each<[boolean | undefined, string]>([
    [undefined, "--metrics=127.0.0.1:8085"],
    [false, "--metrics=127.0.0.1:8085"],
    [true, "--metrics=:8085"],
  ])("with exposed metrics %s has the flag %s, and the kubelet asks 127.0.0.1", (exposes, flag) => {
    const container = containerOf(exposes);
    expect(container?.args?.filter((it) => it.startsWith("--metrics"))).toEqual([flag]);
    const probes = [container?.startupProbe, container?.livenessProbe, container?.readinessProbe];
    expect(probes.map((it) => it?.httpGet?.host)).toEqual(["127.0.0.1", "127.0.0.1", "127.0.0.1"]);
  });
});
