import { describe, expect, it } from "vitest";
import { acceptsAggregated, negotiate, negotiateFormat } from "./negotiate.ts";

describe("an Accept header", () => {
  it.each([
    [undefined, { format: "json", as: undefined }],
    ["*/*", { format: "json", as: undefined }],
    ["application/yaml", { format: "yaml" }],
    ["application/vnd.kubernetes.protobuf, application/json", { format: "json", as: undefined }],
    ["application/json;as=Table;v=v1;g=meta.k8s.io,application/json", { as: "Table", metaVersion: "v1" }],
    ["application/json;as=Table;v=v9;g=meta.k8s.io,application/json", { as: undefined }],
    [
      "application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io",
      { as: "PartialObjectMetadata", metaVersion: "v1beta1" },
    ],
    ["application/json;stream=watch", { format: "json" }],
    ["text/plain;q=0.9, application/yaml;q=0.1, application/json;q=0.5", { format: "json" }],
  ])("%s", (header, expected) => {
    expect(negotiate(header)).toMatchObject(expected);
  });

  it("without a supported format is rejected", () => {
    expect(() => negotiate("text/html")).toThrow(expect.objectContaining({ code: 406 }));
    expect(() => negotiate("application/vnd.kubernetes.protobuf")).toThrow(
      expect.objectContaining({ code: 406 }),
    );
  });

  it("for endpoints without tables selects a plain format, or is rejected", () => {
    const table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    expect(negotiateFormat(`${table},application/yaml`)).toBe("yaml");
    expect(() => negotiateFormat(table)).toThrow(expect.objectContaining({ code: 406 }));
    expect(() => negotiateFormat("application/yaml", ["json"])).toThrow(
      expect.objectContaining({ code: 406 }),
    );
  });

  it("selects aggregated discovery if it is listed first", () => {
    const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    expect(acceptsAggregated(`${aggregated};profile=nopeer,application/json`)).toBe("v2");
    expect(acceptsAggregated(`application/json,${aggregated}`)).toBeUndefined();
    expect(acceptsAggregated("application/json")).toBeUndefined();
  });
});
