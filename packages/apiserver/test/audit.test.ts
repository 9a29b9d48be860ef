import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startTestServer, type TestServer } from "./support.ts";

/** What the audit log says of requests. */

interface AuditEvent {
  readonly stage: string;
  readonly auditID: string;
  readonly verb: string;
  readonly user: { readonly username?: string };
  readonly [field: string]: unknown;
}

let test: TestServer;
let lines: string[] = [];
beforeAll(async () => {
  test = await startTestServer({
    authentication: { staticTokens: new Map([["very-secret-token", { name: "ada", groups: [] }]]) },
    audit: { write: (line) => lines.push(line) },
  });
});
afterAll(() => test[Symbol.asyncDispose]());
beforeEach(() => {
  lines = [];
});

/** The events of one request, once it is over. */
async function eventsOf(id: string, count = 2): Promise<AuditEvent[]> {
  const events = (): AuditEvent[] =>
    lines.map((it) => JSON.parse(it) as AuditEvent).filter((it) => it.auditID === id);
  await expect.poll(() => events().length).toBe(count);
  return events();
}

describe("the audit log", () => {
  it("records the user, the request and the result", async () => {
    const body = { metadata: { name: "a" }, data: { word: "open-sesame" } };
    const answer = await test.call("POST", "/api/v1/namespaces/default/configmaps?fieldManager=x", {
      body,
      headers: { "Audit-Id": "my-request", "User-Agent": "tests" },
    });
    expect(answer.headers["audit-id"]).toBe("my-request");
    const [received, complete] = await eventsOf("my-request");
    const both = {
      kind: "Event",
      apiVersion: "audit.k8s.io/v1",
      level: "Metadata",
      requestURI: "/api/v1/namespaces/default/configmaps?fieldManager=x",
      verb: "create",
      user: { username: "kubernetes-admin", groups: ["system:masters", "system:authenticated"] },
      sourceIPs: ["127.0.0.1"],
      userAgent: "tests",
      objectRef: { resource: "configmaps", namespace: "default", apiVersion: "v1" },
    };
    expect(received).toMatchObject({ ...both, stage: "RequestReceived" });
    expect(received).not.toHaveProperty("responseStatus");
    expect(complete).toMatchObject({
      ...both,
      stage: "ResponseComplete",
      responseStatus: { metadata: {}, code: 201 },
      annotations: { "authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "" },
    });
  });

  it("records the impersonated user, and why a request was denied", async () => {
    const headers = { "Audit-Id": "refused", "Impersonate-User": "jane", "Impersonate-Group": "devs" };
    await test.call("GET", "/api/v1/namespaces/default/secrets/x", { headers });
    const [, complete] = await eventsOf("refused");
    expect(complete).toMatchObject({
      user: { username: "kubernetes-admin" },
      impersonatedUser: { username: "jane", groups: ["devs", "system:authenticated"] },
      responseStatus: { status: "Failure", reason: "Forbidden", code: 403 },
      annotations: { "authorization.k8s.io/decision": "forbid" },
    });
  });

  it("records the start and the end of a watch", async () => {
    await test.call("GET", "/api/v1/configmaps?watch=1&timeoutSeconds=1", {
      headers: { "Audit-Id": "watched" },
    });
    const events = await eventsOf("watched", 3);
    expect(events.map((it) => it.stage)).toEqual(["RequestReceived", "ResponseStarted", "ResponseComplete"]);
  });

  it("records a request that was not authenticated", async () => {
    const headers = { "Audit-Id": "stranger", Authorization: "Bearer unknown-token" };
    await test.call("GET", "/api", { anonymous: true, headers });
    const [event] = await eventsOf("stranger", 1);
    expect(event).toMatchObject({ stage: "ResponseStarted", user: {}, responseStatus: { code: 401 } });
  });

  it("contains neither bodies nor tokens", async () => {
    const headers = { "Audit-Id": "quiet", Authorization: "Bearer very-secret-token" };
    const spec = { token: "very-secret-token" };
    await test.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {
      body: { spec },
      headers,
      anonymous: true,
    });
    await test.call("POST", "/api/v1/namespaces/default/secrets", {
      body: { metadata: { name: "s" }, stringData: { word: "open-sesame" } },
      headers: { "Audit-Id": "silent" },
    });
    await eventsOf("quiet");
    await eventsOf("silent");
    expect(lines.join("\n")).not.toMatch(/very-secret-token|unknown-token|open-sesame/);
  });
});
