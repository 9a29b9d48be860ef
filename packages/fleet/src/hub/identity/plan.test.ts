import { defined } from "@fairlead/base/defined.ts";
import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { type CertificateSigningRequest, CLIENT_SIGNER } from "@fairlead/kube/api/certificates/v1/types.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ServiceAccount } from "@fairlead/kube/api/core/v1/types.ts";
import {
  bootstrapUser,
  CERTIFICATE_SECONDS,
  MEMBERS_GROUP,
  memberUser,
  parseMemberUser,
  USED_BY_ANNOTATION,
} from "#api/fairlead.dev/identity.ts";
import { generatePrivateKey } from "@fairlead/base/pki/keys.ts";
import { createCertificateRequest } from "@fairlead/base/pki/request.ts";
import { accountEndsMs, planVerdict, requestEndsMs } from "./plan.ts";

const key = generatePrivateKey();
const east = "fleet:member:east";

interface Draft {
  readonly commonName?: string;
  readonly organizations?: readonly string[];
  readonly key?: string;
  readonly by?: string;
  readonly uid?: string;
  readonly usages?: string[];
  readonly seconds?: number | undefined;
}

function asked(draft: Draft = {}): CertificateSigningRequest {
  const { commonName = east, organizations = [MEMBERS_GROUP], usages = ["client auth"] } = draft;
  const pem = createCertificateRequest(draft.key ?? key, { commonName, organizations });
  const seconds = "seconds" in draft ? draft.seconds : CERTIFICATE_SECONDS;
  return {
    metadata: { name: "r", uid: "request-1" },
    spec: {
      request: Buffer.from(pem).toString("base64"),
      signerName: CLIENT_SIGNER,
      usages,
      ...defined({ expirationSeconds: seconds }),
      username: draft.by ?? bootstrapUser("east"),
      uid: draft.uid ?? "account-1",
    },
  };
}

function member(name = "east", identity = memberUser(name)): MemberCluster {
  return { metadata: { name }, spec: { identity: { kind: "User", name: identity } } };
}

function account(usedBy?: string): ServiceAccount {
  const annotations = usedBy === undefined ? {} : { [USED_BY_ANNOTATION]: usedBy };
  return { metadata: { name: "join-east", uid: "account-1", annotations } };
}

describe("a request for a certificate", () => {
  it("of a joining member is approved once: from then on the token is valid for this request only", () => {
    const known = { member: member(), account: account() };
    expect(planVerdict(asked(), known)).toMatchObject({ kind: "approve", account: known.account });
    expect(planVerdict(asked(), { member: member(), account: account("request-1") }).kind).toBe("approve");
    expect(planVerdict(asked(), { member: member(), account: account("request-0") })).toMatchObject({
      kind: "deny",
      reason: "TokenUsed",
    });
  });

  it("of a member for itself is approved without any token", () => {
    const verdict = planVerdict(asked({ by: east }), { member: member(), account: undefined });
    expect(verdict).toMatchObject({ kind: "approve", account: undefined });
  });

  it("of others for others is left to others", () => {
    const draft = { commonName: "jane", organizations: ["devs"], by: "jane" };
    expect(planVerdict(asked(draft), { member: undefined, account: undefined })).toEqual({ kind: "ignore" });
  });

  it.each<[string, Draft, string]>([
    ["another member's identity", { by: "fleet:member:west" }, "RequesterNotAllowed"],
    ["a member's identity, asked for by an administrator", { by: "kubernetes-admin" }, "RequesterNotAllowed"],
    ["what another cluster's token may ask for", { by: bootstrapUser("west") }, "RequesterNotAllowed"],
    ["a token of an account that was recreated", { uid: "account-0" }, "TokenUnknown"],
    ["a member that does not exist", { commonName: "fleet:member:north" }, "MemberUnknown"],
    ["a later generation", { commonName: "fleet:member:east:2" }, "IdentityRevoked"],
    ["an identity spelt otherwise", { commonName: "fleet:member:east:1" }, "SubjectNotAllowed"],
    ["an identity that is not a member's", { commonName: "admin" }, "SubjectNotAllowed"],
    ["more groups", { organizations: [MEMBERS_GROUP, "system:masters"] }, "SubjectNotAllowed"],
    ["no group", { organizations: [] }, "SubjectNotAllowed"],
    ["a server's use", { usages: ["client auth", "server auth"] }, "UseNotAllowed"],
    ["no use", { usages: ["digital signature"] }, "UseNotAllowed"],
    ["more time", { seconds: CERTIFICATE_SECONDS + 1 }, "UseNotAllowed"],
    ["as much time as there is", { seconds: undefined }, "UseNotAllowed"],
  ])("is denied for %s, and told why", (_, draft, reason) => {
    const verdict = planVerdict(asked(draft), { member: member(), account: account() });
    expect(verdict).toMatchObject({ kind: "deny", reason });
  });

  it("is denied for a key of a curve that is not on the list", () => {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "secp256k1" });
    const odd = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    const verdict = planVerdict(asked({ key: odd }), { member: member(), account: account() });
    expect(verdict).toMatchObject({ kind: "deny", reason: "KeyNotAllowed" });
  });

  it("of a revoked generation is denied, also when it is the member that asks", () => {
    const known = { member: member("east", memberUser("east", 2)), account: undefined };
    expect(planVerdict(asked({ by: east }), known)).toMatchObject({
      kind: "deny",
      reason: "IdentityRevoked",
    });
  });
});

describe("the name of a member's identity", () => {
  it("has one spelling", () => {
    for (const generation of [1, 2, 10])
      expect(parseMemberUser(memberUser("east", generation))).toEqual({ cluster: "east", generation });
    for (const odd of [
      "fleet:member:",
      "fleet:member:East",
      `${east}:1`,
      `${east}:02`,
      `${east}:2:3`,
      "east",
    ])
      expect(parseMemberUser(odd)).toBeUndefined();
  });
});

describe("a request that was answered", () => {
  const [at, kept] = ["2026-01-01T00:00:00Z", 1000];
  const answered = (type: string, more: object = {}, draft: Draft = {}): CertificateSigningRequest => {
    const condition = { type, status: "True" as const, lastUpdateTime: at };
    const request = asked(draft);
    return {
      ...request,
      metadata: { ...request.metadata, creationTimestamp: "2025-12-31T00:00:00Z" },
      status: { conditions: [condition], ...more },
    };
  };

  it("stays for so long after the answer when nothing more will come of it", () => {
    const ends = Date.parse(at) + kept;
    expect(requestEndsMs(answered("Approved", { certificate: "x" }), kept)).toBe(ends);
    expect(requestEndsMs(answered("Denied"), kept)).toBe(ends);
    expect(requestEndsMs(answered("Failed"), kept)).toBe(ends);
  });

  it("stays while its certificate is not there yet", () => {
    expect(requestEndsMs(answered("Approved"), kept)).toBeUndefined();
  });

  it("stays if it is not a member's", () => {
    const others = { commonName: "jane", organizations: [], by: "jane" };
    expect(requestEndsMs(answered("Denied", {}, others), kept)).toBeUndefined();
  });
});

describe("an account to join with", () => {
  const limits = { fetchMs: 60_000, lifeMs: 1_800_000 };
  const made = { metadata: { name: "join-east", creationTimestamp: "2026-01-01T00:00:00Z" } };
  const madeMs = Date.parse(made.metadata.creationTimestamp);
  it("goes a while after its token was used, or when no token of it lives any more", () => {
    expect(accountEndsMs(made, undefined, limits)).toBe(madeMs + 1_800_000);
    expect(accountEndsMs(made, madeMs + 5000, limits)).toBe(madeMs + 65_000);
    expect(accountEndsMs(made, madeMs + 1_799_000, limits)).toBe(madeMs + 1_800_000);
  });
});
