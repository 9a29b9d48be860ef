import "reflect-metadata";
import { webcrypto, X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DerError } from "@fairlead/base/pki/der.ts";
import { parseCertificateRequest } from "@fairlead/base/pki/request.ts";
import { Agent, request as httpsRequest } from "node:https";
import { KUBECTL, type Answer, type Json, startTestServer, type TestServer } from "./support.ts";

/** CertificateSigningRequests: who may have whom certified, and what comes of it. */

const PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const API_CLIENT = "kubernetes.io/kube-apiserver-client";
const MERGE = { "Content-Type": "application/merge-patch+json" };
const APPROVED = { status: { conditions: [{ type: "Approved", status: "True", reason: "Test" }] } };

let test: TestServer;
beforeAll(async () => {
  const users = {
    approver: { name: "renewer", groups: ["approvers"] },
    member: { name: "member-1", groups: ["members"] },
    plain: { name: "plain", groups: [] },
  };
  test = await startTestServer({ authentication: { staticTokens: new Map(Object.entries(users)) } });
  const rule = (name: string, rules: object[], group: string): Promise<void> => grant(name, rules, group);
  const csr = { apiGroups: ["certificates.k8s.io"] };
  await rule(
    "approve",
    [
      { ...csr, resources: ["certificatesigningrequests"], verbs: ["get", "list"] },
      { ...csr, resources: ["certificatesigningrequests/approval"], verbs: ["update", "patch"] },
      { ...csr, resources: ["signers"], resourceNames: [API_CLIENT], verbs: ["approve"] },
    ],
    "approvers",
  );
  await rule(
    "ask",
    [{ ...csr, resources: ["certificatesigningrequests"], verbs: ["create", "get"] }],
    "members",
  );
  await rule(
    "careless",
    [{ ...csr, resources: ["certificatesigningrequests/approval"], verbs: ["update", "patch"] }],
    "members",
  );
});
afterAll(() => test[Symbol.asyncDispose]());

async function grant(name: string, rules: object[], group: string): Promise<void> {
  const rbac = "/apis/rbac.authorization.k8s.io/v1";
  await test.call("POST", `${rbac}/clusterroles`, { body: { metadata: { name }, rules } });
  const body = {
    metadata: { name },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
    subjects: [{ kind: "Group", apiGroup: "rbac.authorization.k8s.io", name: group }],
  };
  expect((await test.call("POST", `${rbac}/clusterrolebindings`, { body })).code).toBe(201);
}

interface Asked {
  readonly pem: string;
  readonly key: string;
}

async function ask(subject: string, names: x509.JsonGeneralNames = []): Promise<Asked> {
  const keys = await webcrypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, [
    "sign",
    "verify",
  ]);
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: subject,
    keys,
    signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
    extensions: names.length === 0 ? [] : [new x509.SubjectAlternativeNameExtension(names)],
  });
  const key = x509.PemConverter.encode(
    await webcrypto.subtle.exportKey("pkcs8", keys.privateKey),
    "PRIVATE KEY",
  );
  return { pem: `${request.toString("pem")}\n`, key };
}

interface Wanted {
  readonly signer?: string;
  readonly usages?: readonly string[];
  readonly expirationSeconds?: number;
  readonly token?: string;
}

function send(name: string, pem: string, of: Wanted = {}): Promise<Answer> {
  const { signer = API_CLIENT, usages = ["client auth"], expirationSeconds } = of;
  const request = Buffer.from(pem).toString("base64");
  const body = { metadata: { name }, spec: { request, signerName: signer, usages, expirationSeconds } };
  return test.call("POST", PATH, { body, ...as(of.token) });
}

function as(token: string | undefined): object {
  return token === undefined ? {} : { anonymous: true, headers: { Authorization: `Bearer ${token}` } };
}

function approve(name: string, token?: string): Promise<Answer> {
  const headers = { ...MERGE, ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }) };
  const anonymous = token !== undefined;
  return test.call("PATCH", `${PATH}/${name}/approval`, { body: APPROVED, headers, anonymous });
}

async function statusOf(
  name: string,
): Promise<{ certificate?: string; conditions: Record<string, string>[] }> {
  const { json } = await test.call("GET", `${PATH}/${name}`);
  return json.status as { certificate?: string; conditions: Record<string, string>[] };
}

async function certificateOf(name: string): Promise<X509Certificate> {
  const { certificate = "" } = await statusOf(name);
  return new X509Certificate(Buffer.from(certificate, "base64"));
}

function whoIs(cert: string, key: string): Promise<Json> {
  const agent = new Agent({ ca: test.server.ca, cert, key });
  const path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
  return new Promise((resolve, reject) => {
    const headers = { "Content-Type": "application/json", "Content-Length": 2 };
    const to = { host: "127.0.0.1", port: test.server.port, method: "POST", path, agent, headers };
    const outgoing = httpsRequest(to, (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.once("end", () => {
        agent.destroy();
        resolve(JSON.parse(Buffer.concat(chunks).toString()) as Json);
      });
    });
    outgoing.once("error", reject);
    outgoing.end("{}");
  });
}

describe("a request for a certificate", () => {
  it("is signed once it is approved, for the requested subject and time, and authenticates its holder", async () => {
    const { pem, key } = await ask("O=devs,CN=jane");
    expect((await send("jane", pem, { expirationSeconds: 3600 })).json.spec).toMatchObject({
      username: "kubernetes-admin",
      groups: ["system:masters", "system:authenticated"],
    });
    expect((await statusOf("jane")).certificate).toBeUndefined();
    expect((await approve("jane")).code).toBe(200);
    const certificate = await certificateOf("jane");
    expect(certificate.verify(new X509Certificate(test.server.ca).publicKey)).toBe(true);
    expect(certificate.subject).toBe("O=devs\nCN=jane");
    expect(certificate.ca).toBe(false);
    expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.2"]);
    const lastsMs = certificate.validToDate.getTime() - certificate.validFromDate.getTime();
    expect(lastsMs).toBe(3_900_000);
    expect((await whoIs(certificate.toString(), key)).status["userInfo"]).toMatchObject({
      username: "jane",
      groups: ["devs", "system:authenticated"],
    });
  });

  it("is not signed if it is denied or not approved", async () => {
    const { pem } = await ask("CN=jack");
    await send("jack", pem);
    const denied = { status: { conditions: [{ type: "Denied", status: "True" }] } };
    const answer = await test.call("PATCH", `${PATH}/jack/approval`, { body: denied, headers: MERGE });
    expect(answer.code).toBe(200);
    expect((await approve("jack")).json.message).toContain('may not remove a condition of type "Denied"');
    expect((await statusOf("jack")).certificate).toBeUndefined();
  });

  it.each<[string, string, Wanted, string]>([
    ["dns", "CN=a", {}, "DNS subjectAltNames are not allowed"],
    [
      "server",
      "CN=a",
      { usages: ["client auth", "server auth"] },
      "invalid usage for client certificate: server auth",
    ],
    [
      "none",
      "CN=a",
      { usages: ["digital signature"] },
      "missing required usage for client certificate: client auth",
    ],
    [
      "kubelet",
      "O=system:nodes,CN=node-1",
      { signer: "kubernetes.io/kube-apiserver-client-kubelet" },
      "subject common name does not begin with system:node:",
    ],
    [
      "serving",
      "CN=a",
      { signer: "kubernetes.io/kubelet-serving" },
      "subject organization is not system:nodes",
    ],
  ])("with an invalid request (%s) fails although it is approved", async (name, subject, wanted, message) => {
    const { pem } = await ask(subject, name === "dns" ? [{ type: "dns", value: "kubernetes.default" }] : []);
    await send(name, pem, wanted);
    expect((await approve(name)).code).toBe(200);
    const { certificate, conditions } = await statusOf(name);
    expect(certificate).toBeUndefined();
    expect(conditions[1]).toMatchObject({ type: "Failed", reason: "SignerValidationFailure", message });
  });

  it("of a kubelet gets a serving certificate with its names", async () => {
    const names = [
      { type: "dns", value: "node-1" },
      { type: "ip", value: "10.0.0.7" },
    ] as const;
    const { pem } = await ask("O=system:nodes,CN=system:node:node-1", [...names]);
    const usages = ["digital signature", "server auth"];
    await send("node-1", pem, { signer: "kubernetes.io/kubelet-serving", usages });
    await approve("node-1");
    const certificate = await certificateOf("node-1");
    expect(certificate.subjectAltName).toBe("DNS:node-1, IP Address:10.0.0.7");
    expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1"]);
  });

  it("for another signer is only stored", async () => {
    const { pem } = await ask("CN=a");
    await send("foreign", pem, { signer: "example.com/own" });
    expect((await approve("foreign")).code).toBe(200);
    expect((await statusOf("foreign")).certificate).toBeUndefined();
  });

  it("is immutable, and keeps its certificate", async () => {
    const { pem } = await ask("CN=fixed");
    await send("fixed", pem);
    await approve("fixed");
    const before = await statusOf("fixed");
    const spec = { signerName: "example.com/own", username: "root" };
    await test.call("PATCH", `${PATH}/fixed`, { body: { spec, status: {} }, headers: MERGE });
    const { json } = await test.call("GET", `${PATH}/fixed`);
    expect([json.spec["signerName"], json.spec["username"]]).toEqual([API_CLIENT, "kubernetes-admin"]);
    const certificate = Buffer.from(test.server.ca).toString("base64");
    const other = await test.call("PATCH", `${PATH}/fixed/status`, {
      body: { status: { certificate } },
      headers: MERGE,
    });
    expect(other.json.message).toContain("updates may not modify existing certificate content");
    expect(await statusOf("fixed")).toEqual(before);
  });

  it.skipIf(KUBECTL === undefined)("is approved and denied by kubectl", async () => {
    const { pem } = await ask("CN=by-kubectl");
    await send("by-kubectl", pem);
    expect((await test.kubectl(["certificate", "approve", "by-kubectl"])).stdout).toContain("approved");
    expect((await test.kubectl(["get", "csr", "by-kubectl"])).stdout).toContain("Approved,Issued");
  });
});

describe("an approver that may only approve (CVE-2026-4740)", () => {
  it("renews a member's certificate", async () => {
    const { pem } = await ask("O=members,CN=member-1");
    expect((await send("renewal", pem, { token: "member" })).code).toBe(201);
    expect((await approve("renewal", "approver")).code).toBe(200);
    expect((await certificateOf("renewal")).subject).toBe("O=members\nCN=member-1");
  });

  it.each([
    "CN=member-2",
    "CN=kubernetes-admin",
    "O=members,CN=member-2",
    "O=members+O=ops,CN=member-1",
    "O=system:nodes,CN=system:node:a",
    "CN=system:serviceaccount:kube-system:admin",
    "CN=member-1,CN=root",
    "O=members",
  ])("cannot approve %s", async (subject) => {
    const name = `forged-${Buffer.from(subject).toString("hex")}`.slice(0, 60);
    const { pem } = await ask(subject);
    expect((await send(name, pem, { token: "member" })).code).toBe(201);
    const refused = await approve(name, "approver");
    expect([refused.code, refused.json.reason]).toEqual([403, "Forbidden"]);
    expect((await statusOf(name)).certificate).toBeUndefined();
  });

  it("issues no certificate for an administrator, regardless of the requester and the approver", async () => {
    const { pem } = await ask("O=system:masters,CN=root");
    expect((await send("masters", pem)).json.message).toContain("with system:masters group is not allowed");
    const kubelet = await send("masters", pem, { signer: "kubernetes.io/kube-apiserver-client-kubelet" });
    expect(kubelet.code).toBe(201);
    expect((await approve("masters")).code).toBe(403);
  });

  it("needs the permission for the signer", async () => {
    const { pem } = await ask("O=members,CN=member-1");
    await send("unpermitted", pem, { token: "member" });
    expect((await approve("unpermitted", "member")).json.message).toContain(
      `user not permitted to approve requests with signerName "${API_CLIENT}"`,
    );
    expect((await approve("unpermitted", "plain")).code).toBe(403);
  });
});

describe("an invalid certificate request", () => {
  it("is rejected: with the signature of another request, another PEM block, a name with a line break", async () => {
    const one = await ask("CN=one");
    const two = await ask("CN=two");
    const [body, other] = [one, two].map((it) => it.pem.split("\n").slice(1, -2).join("\n"));
    const mixed = `${body?.slice(0, 120)}${other?.slice(120)}`;
    for (const pem of [mixed, one.key, "", "x"]) {
      expect((await send("bad", pem)).code).toBe(422);
    }
    const { pem } = await ask("CN=a\\0Ab");
    expect((await send("bad", pem)).json.message).toContain("control characters");
  });

  it("never crashes the parser", async () => {
    const { pem } = await ask("O=devs,CN=jane", [{ type: "dns", value: "a" }]);
    const der = Buffer.from(pem.split("\n").slice(1, -2).join(""), "base64");
    const wrap = (bytes: Buffer): string =>
      `-----BEGIN CERTIFICATE REQUEST-----\n${bytes.toString("base64")}\n-----END CERTIFICATE REQUEST-----\n`;
    fc.assert(
      fc.property(
        fc.nat(der.length - 1),
        fc.integer({ min: 0, max: 255 }),
        fc.nat(der.length),
        (at, byte, end) => {
          const bytes = Buffer.from(der.subarray(0, end));
          if (at < end) bytes[at] = byte;
          if (bytes.equals(der)) return;
          expect(() => parseCertificateRequest(wrap(bytes))).toThrow(DerError);
        },
      ),
    );
  });
});
