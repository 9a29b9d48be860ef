import { describe, expect, it } from "vitest";
import { draftCatalog, readNames, renderCatalogs } from "./catalog.ts";

const DEFAULTS = {
  kubernetes: undefined,
  nodeImages: undefined,
  region: undefined,
  minors: 3,
  previews: false,
};

describe("a list of versions", () => {
  it.each([
    ["lines", "# ours\nv1.34.1\n\n1.33.4\r\n"],
    ["the tags of a registry", '{"name": "kube-apiserver", "tags": ["v1.34.1", "1.33.4"]}'],
    ["releases of a repository", '[{"tag_name": "v1.34.1", "draft": false}, {"tag_name": "1.33.4"}]'],
    ["a list in YAML", "- v1.34.1\n- version: 1.33.4\n"],
  ])("is read from %s", (_what, text) => {
    expect(readNames(text, "f")).toEqual(["v1.34.1", "1.33.4"]);
  });

  it.each([
    ["{}", "f has no list of versions"],
    ["[1,", "f is not YAML or JSON"],
    [JSON.stringify(Array.from({ length: 20_001 }, String)), "f has more than 20000 entries"],
  ])("is refused with its source: %s", (text, message) => {
    expect(() => readNames(text, "f")).toThrow(message);
  });
});

describe("a catalog", () => {
  it("has the newest minor versions, newest first, without previews and what is not a version", () => {
    const kubernetes = [
      "v1.31.1",
      "v1.34.0",
      "latest",
      "v1.34.1",
      "1.34.1",
      "v1.35.0-rc.1",
      "v1.33.4",
      "v1.32.9",
    ];
    expect(draftCatalog({ ...DEFAULTS, kubernetes, region: "eu" })).toEqual({
      spec: {
        region: "eu",
        kubernetesVersions: ["1.34.1", "1.34.0", "1.33.4", "1.32.9"].map((version) => ({ version })),
      },
      ignored: 1,
    });
    const withPreviews = draftCatalog({ ...DEFAULTS, kubernetes, minors: 1, previews: true });
    expect(withPreviews.spec.kubernetesVersions).toEqual([{ version: "1.35.0-rc.1", preview: true }]);
  });

  it("has the builds of distributions, which registries write with a dash", () => {
    const kubernetes = ["v1.34.1-k3s1", "v1.34.1-rke2r2", "v1.34.1-rc1-k3s1", "v1.34.1-k3s1-amd64"];
    const { spec } = draftCatalog({ ...DEFAULTS, kubernetes });
    expect(spec.kubernetesVersions).toEqual([{ version: "1.34.1+rke2r2" }, { version: "1.34.1+k3s1" }]);
  });

  it("has node images of all families", () => {
    const nodeImages = [
      "ubuntu-2404-20260801",
      "ubuntu-2404-20260901",
      "sha256-x",
      "latest",
      "ubuntu-2404-20260801",
    ];
    expect(draftCatalog({ ...DEFAULTS, nodeImages })).toEqual({
      spec: { nodeImages: [{ version: "ubuntu-2404-20260901" }, { version: "ubuntu-2404-20260801" }] },
      ignored: 2,
    });
  });

  it("is not made of a list without versions, which would hold all upgrades back", () => {
    expect(() => draftCatalog({ ...DEFAULTS, kubernetes: ["latest"] })).toThrow("no version of Kubernetes");
    expect(() => draftCatalog({ ...DEFAULTS, nodeImages: [] })).toThrow("no version of node images");
    const many = Array.from({ length: 501 }, (_, at) => `1.34.${at}`);
    expect(() => draftCatalog({ ...DEFAULTS, kubernetes: many })).toThrow("keep fewer with --minor-versions");
  });

  it("is listed with what it has", () => {
    const spec = { kubernetesVersions: [{ version: "1.34.1" }, { version: "1.33.4" }] };
    expect(renderCatalogs([{ metadata: { name: "all" }, spec }], "text")).toBe(
      "NAME   REGION   KUBERNETES        NODE IMAGES\nall    all      2, first 1.34.1   -",
    );
  });
});
