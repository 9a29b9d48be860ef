import { describe, expect, it } from "vitest";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { LAST_APPLIED_ANNOTATION, SPEC_HASH_ANNOTATION } from "#api/placement.kubernetes-fleet.io/names.ts";
import { openEnvelope } from "../works/envelopes.ts";
import { diffObjects, MAX_DETAILS } from "./diff.ts";
import { readManifests } from "./manifest.ts";

const KUBECTL = "kubectl.kubernetes.io/last-applied-configuration";

const object = (more: object, metadata: object = {}): KubeObject => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "x", ...metadata },
  ...more,
});

describe("the differences of an object", () => {
  it.each<[what: string, inMember: object, inHub: object, expected: object[]]>([
    [
      "a changed value",
      { data: { a: "2" } },
      { data: { a: "1" } },
      [{ path: "/data/a", valueInMember: "2", valueInHub: "1" }],
    ],
    ["what the member has more", { data: { a: "2" } }, {}, [{ path: "/data", valueInMember: '{"a":"2"}' }]],
    ["what the member lacks", { data: {} }, { data: { b: "1" } }, [{ path: "/data/b", valueInHub: "1" }]],
    [
      "a number and a list",
      { n: 1 },
      { n: [true] },
      [{ path: "/n", valueInMember: "1", valueInHub: "[true]" }],
    ],
    [
      "items of lists",
      { list: [1, 2, 3] },
      { list: [1, 4] },
      [
        { path: "/list/1", valueInMember: "2", valueInHub: "4" },
        { path: "/list/2", valueInMember: "3" },
      ],
    ],
    [
      "names with slashes and tildes",
      { "a/b~c": 1 },
      { "a/b~c": 2 },
      [{ path: "/a~1b~0c", valueInMember: "1", valueInHub: "2" }],
    ],
    ["no status", { status: { a: 1 } }, {}, []],
    ["nothing in an empty map and an absent one", { data: {}, list: [] }, {}, []],
  ])("are %s", (_, inMember, inHub, expected) => {
    expect(diffObjects(object(inMember), object(inHub))).toEqual(expected);
  });

  it("leave out what the server and the applier write", () => {
    const written = {
      uid: "u",
      resourceVersion: "1",
      generation: 2,
      managedFields: [],
      creationTimestamp: "2026-01-01T00:00:00Z",
      ownerReferences: [{ apiVersion: "v1", kind: "x", name: "x", uid: "x" }],
      annotations: { [LAST_APPLIED_ANNOTATION]: "{}", [SPEC_HASH_ANNOTATION]: "h" },
    };
    expect(diffObjects(object({}, written), object({}))).toEqual([]);
    expect(diffObjects(object({}, { ...written, labels: { a: "1" } }), object({}))).toEqual([
      { path: "/metadata/labels", valueInMember: '{"a":"1"}' },
    ]);
  });

  it("show no content of Secrets", () => {
    const secret = (data: object, annotations: object): KubeObject => ({
      ...object({ data }, { annotations }),
      kind: "Secret",
    });
    const found = diffObjects(
      secret({ a: "c2VjcmV0" }, { x: "hidden" }),
      secret({ a: "b3RoZXI=", b: "bmV3" }, {}),
    );
    const hidden = "(redacted for security reasons)";
    expect(found).toEqual(
      [
        { path: "/metadata/annotations", valueInMember: hidden },
        { path: "/data/a", valueInMember: hidden, valueInHub: hidden },
        { path: "/data/b", valueInHub: hidden },
      ].toSorted(
        (a, b) => found.findIndex((it) => it.path === a.path) - found.findIndex((it) => it.path === b.path),
      ),
    );
  });

  it.each([
    ["data", { data: { password: "aHVudGVyMg==" } }, {}],
    ["stringData", { stringData: { password: "hunter2" } }, {}],
    ["the copy of kubectl", {}, { annotations: { [KUBECTL]: '{"data":{"password":"aHVudGVyMg=="}}' } }],
    ["an annotation", {}, { annotations: { note: "hunter2 aHVudGVyMg==" } }],
    ["a label", {}, { labels: { note: "hunter2" } }],
    ["a type", { type: "example.com/hunter2" }, {}],
  ])("show no %s of a Secret of an envelope, on whichever side it is", (_, more, metadata) => {
    const text = JSON.stringify({ ...object(more, { namespace: "shop", ...metadata }), kind: "Secret" });
    const box = object(
      { data: { x: text } },
      { namespace: "shop", annotations: { "kubernetes-fleet.io/envelope-configmap": "true" } },
    );
    const [secret] = readManifests(openEnvelope(box).manifests).manifests;
    const empty = { ...object({}, { namespace: "shop" }), kind: "Secret" };
    const found = [
      diffObjects(secret?.object ?? empty, empty),
      diffObjects(empty, secret?.object ?? empty),
      diffObjects(JSON.parse(text) as KubeObject, empty),
    ];
    expect(JSON.stringify(found)).not.toMatch(/hunter2|aHVudGVyMg/);
  });

  it("leave out the copy that kubectl keeps in an object of the member, which may have what was removed", () => {
    const applied = { annotations: { [KUBECTL]: '{"spec":{"password":"hunter2"}}', note: "1" } };
    expect(diffObjects(object({}, applied), object({}))).toEqual([
      { path: "/metadata/annotations", valueInMember: '{"note":"1"}' },
    ]);
  });

  it("are bounded in number and length", () => {
    const data = Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`k${at}`, "v".repeat(10_000)]));
    const found = diffObjects(object({ data }), object({ data: { other: "1" } }));
    expect(found).toHaveLength(MAX_DETAILS);
    expect(diffObjects(object({ data }), object({}), 300)).toHaveLength(1);
    expect(diffObjects(object({ data }), object({ data: { other: "1" } }), 300)).toHaveLength(300);
    expect(Math.max(...found.map((it) => it.valueInMember?.length ?? 0))).toBeLessThan(2100);
  });
});
