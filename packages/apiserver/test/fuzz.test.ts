import * as fc from "fast-check";
import { expect, it } from "vitest";
import { startTestServer } from "./support.ts";

/** Parts out of which requests are put together, the right ones among them often enough to get past the first check. */
const method = fc.constantFrom("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS");
const segment = fc.constantFrom(
  "api",
  "apis",
  "v1",
  "namespaces",
  "default",
  "services",
  "kubernetes",
  "status",
  "apps",
  "deployments",
  "pods",
  "log",
  "scale",
  "eviction",
  "binding",
  "finalize",
  "__proto__",
  "constructor",
  "%2e%2e",
  "%zz",
  "",
  "openapi",
  "v3",
);
const path = fc.oneof(
  fc.array(segment, { maxLength: 8 }).map((it) => `/${it.join("/")}`),
  fc.array(segment, { maxLength: 3 }).map((it) => `/api/v1/namespaces/default/services/${it.join("/")}`),
);
const query = fc.constantFrom(
  "",
  "?limit=x",
  "?watch=1&timeoutSeconds=x&resourceVersion=-1",
  "?labelSelector=a%20in%20(",
  "?fieldSelector=__proto__%3D1",
  "?dryRun=All",
  "?fieldManager=m&force=true",
  "?continue=e30",
  "?fieldValidation=Strict",
  "?pretty=true&includeObject=None",
);
const type = fc.constantFrom(
  "application/json",
  "application/yaml",
  "application/json-patch+json",
  "application/merge-patch+json",
  "application/strategic-merge-patch+json",
  "application/apply-patch+yaml",
  "application/vnd.kubernetes.protobuf",
  "",
);
const field = fc.constantFrom(
  "kind",
  "apiVersion",
  "metadata",
  "name",
  "labels",
  "spec",
  "status",
  "ports",
  "port",
  "data",
  "$patch",
  "op",
  "path",
  "managedFields",
  "ownerReferences",
  "finalizers",
);
const { json } = fc.letrec<{ json: unknown }>((tie) => ({
  json: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom(null, true, 0, -1, 1.5, "", "x", "v1", "Service", "ConfigMap", "delete", "add", "/spec"),
    fc.array(tie("json"), { maxLength: 3 }),
    fc.dictionary(field, tie("json"), { maxKeys: 5 }),
  ),
}));
const body = fc.oneof(
  json.map((it) => JSON.stringify(it)),
  fc.string({ maxLength: 20 }),
  fc.uint8Array({ maxLength: 40 }).map((it) => Buffer.concat([Buffer.from("k8s\0"), it])),
);

/** Requests to which kube-apiserver, too, answers 500 without a reason: a patch that does not fit, an invalid revision. */
const FAILURES_OF_THE_CLIENT = [
  /^failed to create typed patch object \(/,
  /does not contain declared merge key: /,
  /^unknown patch type: /,
  /^(resourceVersion: Invalid value: .*: )?strconv\.ParseUint: parsing ".*": invalid syntax$/s,
];

function isInternal(answer: { readonly code: number; readonly json: unknown }): boolean {
  if (answer.code !== 500) return false;
  const { reason, message = "" } = answer.json as { readonly reason?: string; readonly message?: string };
  return reason !== undefined || !FAILURES_OF_THE_CLIENT.some((it) => it.test(message));
}

it("no request causes an internal error, and every rejection is a Status, except for paths that are not served", async () => {
  await using test = await startTestServer();
  await fc.assert(
    fc.asyncProperty(
      method,
      path,
      query,
      fc.tuple(type, body),
      async (verb, at, more, [contentType, bytes]) => {
        const hasBody = verb !== "GET" && verb !== "HEAD";
        const answer = await test.call(verb, at + more, {
          headers: { "Content-Type": contentType },
          ...(hasBody ? { body: bytes } : {}),
        });
        expect(isInternal(answer) ? answer.text : "").toBe("");
        const isNowhere = answer.code === 404 && answer.text === "404 page not found\n";
        if (answer.code >= 400 && verb !== "HEAD" && !isNowhere) {
          expect(answer.json).toMatchObject({ kind: "Status", status: "Failure", code: answer.code });
        }
      },
    ),
    { numRuns: 2000, endOnFailure: true },
  );
  expect((await test.call("GET", "/readyz")).text).toBe("ok");
});
