import { beforeEach, describe, expect, it } from "vitest";
import { generatePrivateKey } from "@fairlead/base/pki/keys.ts";
import type { ApiObject, ObjectReader, UserInfo } from "#values/object.ts";
import { type AuthenticRequest, Authenticator } from "./authenticate.ts";
import { authenticationReviews } from "./reviews-authentication.ts";
import { impersonate } from "./impersonate.ts";
import { staticTokens } from "./static-tokens.ts";
import { ServiceAccountTokens } from "./tokens.ts";
import type { Attributes, Authorizer, Decision } from "#values/authorizer.ts";

const NOW = 1_700_000_000_000;
const ISSUER = "https://kubernetes.default.svc.cluster.local";

/** What there is in the cluster; tests change it. */
class Objects implements ObjectReader {
  readonly held = new Map<string, ApiObject>();
  add(plural: string, namespace: string | undefined, name: string, more: Partial<ApiObject> = {}): void {
    const place = namespace === undefined ? {} : { namespace };
    const metadata = { name, ...place, uid: `uid-of-${name}`, ...more.metadata };
    this.held.set(`${plural}/${namespace ?? ""}/${name}`, { apiVersion: "v1", kind: "X", ...more, metadata });
  }
  get(_group: string, plural: string, namespace: string | undefined, name: string): ApiObject | undefined {
    return this.held.get(`${plural}/${namespace ?? ""}/${name}`);
  }
  list(): Iterable<ApiObject> {
    return this.held.values();
  }
}

class FixedAuthorizer implements Authorizer {
  readonly allowed = new Set<string>();
  authorize(attributes: Attributes): Decision {
    if ("path" in attributes) return { allowed: false, reason: "" };
    const { verb, resource } = attributes;
    return { allowed: this.allowed.has(`${verb} ${resource.resource} ${resource.name}`), reason: "" };
  }
  rulesFor(): { resourceRules: []; nonResourceRules: [] } {
    return { resourceRules: [], nonResourceRules: [] };
  }
}

function request(headers: Record<string, string | string[]>): AuthenticRequest {
  const headersDistinct = Object.fromEntries(Object.entries(headers).map(([key, it]) => [key, [it].flat()]));
  return { socket: {}, headersDistinct };
}

describe("a request", () => {
  let reader = new Objects();
  let authorizer = new FixedAuthorizer();
  const tokens = new ServiceAccountTokens({ privateKey: generatePrivateKey() });
  let authenticator = new Authenticator({ serviceAccountTokens: tokens });
  const review = async (name: string, object: Record<string, unknown>, nowMs = NOW): Promise<ApiObject> => {
    const reviews = authenticationReviews({
      authenticator,
      serviceAccountTokens: tokens,
      newUid: () => "token-id",
    });
    const found = reviews.find((it) => it.plural === name);
    if (found === undefined) throw new Error(name);
    const body: ApiObject = { apiVersion: "v1", kind: found.kind, metadata: { name: "" }, ...object };
    found.applyDefaults?.(body);
    return found.review({
      object: body,
      user: { name: "u", groups: [] },
      namespace: "n",
      name: "bot",
      reader,
      nowMs,
    });
  };
  const tokenFor = async (spec: object = {}): Promise<string> => {
    const { status } = await review("token", { spec });
    return (status as { token: string }).token;
  };
  const who = async (token: string, nowMs = NOW): Promise<UserInfo> =>
    authenticator.authenticate(request({ authorization: `Bearer ${token}` }), { reader, nowMs });
  /** The user of a request after authentication. */
  const acting = async (headers: Record<string, string | string[]>): Promise<UserInfo> => {
    const sent = request(headers);
    const user = await authenticator.authenticate(sent, { reader, nowMs: NOW });
    return impersonate(user, sent.headersDistinct, authorizer);
  };

  beforeEach(() => {
    reader = new Objects();
    reader.add("serviceaccounts", "n", "bot");
    authorizer = new FixedAuthorizer();
    authenticator = new Authenticator({
      serviceAccountTokens: tokens,
      tokenSources: [staticTokens(new Map([["secret", { name: "ada", groups: ["devs"] }]]), [ISSUER])],
    });
  });

  it("without credentials is system:anonymous, or 401 if anonymous access is disabled", async () => {
    const context = { reader, nowMs: NOW };
    expect(await authenticator.authenticate(request({}), context)).toEqual({
      name: "system:anonymous",
      groups: ["system:unauthenticated"],
    });
    const strict = new Authenticator({ serviceAccountTokens: tokens, anonymous: false });
    expect(() => strict.authenticate(request({}), context)).toThrow("Unauthorized");
  });

  it("with a static token is authenticated as its user, and with an unknown token is never anonymous", async () => {
    expect(await who("secret")).toEqual({ name: "ada", groups: ["devs", "system:authenticated"] });
    await expect((async () => who("x"))()).rejects.toMatchObject({ code: 401 });
  });

  it("with a ServiceAccount token is authenticated as the ServiceAccount", async () => {
    expect(await who(await tokenFor())).toEqual({
      name: "system:serviceaccount:n:bot",
      uid: "uid-of-bot",
      groups: ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"],
      extra: { "authentication.kubernetes.io/credential-id": ["JTI=token-id"] },
    });
  });

  it("is rejected from the second at which its token expires", async () => {
    const token = await tokenFor({ expirationSeconds: 600 });
    expect((await who(token, NOW + 599_000)).name).toBe("system:serviceaccount:n:bot");
    await expect((async () => who(token, NOW + 600_000))()).rejects.toMatchObject({ code: 401 });
  });

  it("is rejected if the ServiceAccount does not exist, was recreated, or was deleted a minute ago", async () => {
    const token = await tokenFor();
    await who(token);
    const refused = async (): Promise<void> => {
      await expect((async () => who(token))()).rejects.toMatchObject({ code: 401 });
    };
    reader.held.clear();
    await refused();
    reader.add("serviceaccounts", "n", "bot", { metadata: { name: "bot", uid: "another" } });
    await refused();
    const deletionTimestamp = new Date(NOW - 61_000).toISOString();
    reader.add("serviceaccounts", "n", "bot", {
      metadata: { name: "bot", uid: "uid-of-bot", deletionTimestamp },
    });
    await refused();
  });

  it("is rejected if its token is signed by another key, for another audience, or modified", async () => {
    const others = new ServiceAccountTokens({ privateKey: generatePrivateKey() });
    const serviceAccount = { name: "bot", uid: "uid-of-bot" };
    const wanted = {
      namespace: "n",
      serviceAccount,
      audiences: [ISSUER],
      expirationSeconds: 600,
      nowMs: NOW,
      id: "i",
    };
    const token = await tokenFor();
    const [head = "", body = "", signature = ""] = token.split(".");
    const forged = Buffer.from(Buffer.from(body, "base64url").toString().replace(":bot", ":root")).toString(
      "base64url",
    );
    const unsigned = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
    const bad = [
      await others.sign(wanted),
      await tokenFor({ audiences: ["vault"] }),
      `${head}.${forged}.${signature}`,
      `${unsigned}.${body}.`,
    ];
    for (const it of bad) await expect((async () => who(it))()).rejects.toMatchObject({ code: 401 });
  });

  it("with a pod's token is rejected once the pod is deleted, and includes the pod's node", async () => {
    reader.add("pods", "n", "web", { spec: { serviceAccountName: "bot", nodeName: "node-1" } });
    reader.add("nodes", undefined, "node-1");
    const token = await tokenFor({ boundObjectRef: { kind: "Pod", apiVersion: "v1", name: "web" } });
    expect((await who(token)).extra).toEqual({
      "authentication.kubernetes.io/credential-id": ["JTI=token-id"],
      "authentication.kubernetes.io/pod-name": ["web"],
      "authentication.kubernetes.io/pod-uid": ["uid-of-web"],
      "authentication.kubernetes.io/node-name": ["node-1"],
      "authentication.kubernetes.io/node-uid": ["uid-of-node-1"],
    });
    reader.held.delete("pods/n/web");
    await expect((async () => who(token))()).rejects.toMatchObject({ code: 401 });
  });

  it.each<[object, number]>([
    [{ expirationSeconds: 599 }, 422],
    [{ boundObjectRef: { kind: "Pod", name: "absent" } }, 404],
    [{ boundObjectRef: { kind: "Deployment", name: "x" } }, 400],
    [{ boundObjectRef: { kind: "Secret", name: "s", uid: "other" } }, 409],
  ])("for a token of %j is answered %d", async (spec, code) => {
    reader.add("secrets", "n", "s");
    await expect((async () => tokenFor(spec))()).rejects.toMatchObject({ code });
  });

  it("can have a token reviewed", async () => {
    const token = await tokenFor({ audiences: ["vault"] });
    const good = await review("tokenreviews", { spec: { token, audiences: ["vault", "other"] } });
    expect(good["status"]).toMatchObject({
      authenticated: true,
      audiences: ["vault"],
      user: { username: "system:serviceaccount:n:bot" },
    });
    const bad = await review("tokenreviews", { spec: { token } });
    expect(bad["status"]).toEqual({ user: {}, error: "invalid bearer token" });
  });

  it("may impersonate another user with permission for every part", async () => {
    const headers = {
      authorization: "Bearer secret",
      "impersonate-user": "bob",
      "impersonate-group": ["ops", "dbas"],
      "impersonate-extra-scopes": "all",
    };
    const act = (): Promise<UserInfo> => acting(headers);
    const parts = ["users bob", "groups ops", "groups dbas", "userextras all"];
    for (const part of parts) {
      await expect(act()).rejects.toMatchObject({ code: 403 });
      authorizer.allowed.add(`impersonate ${part}`);
    }
    expect(await act()).toEqual({
      name: "bob",
      groups: ["ops", "dbas", "system:authenticated"],
      extra: { scopes: ["all"] },
    });
  });

  it("cannot impersonate a group without a user", async () => {
    const headers = { authorization: "Bearer secret", "impersonate-group": "ops" };
    await expect(acting(headers)).rejects.toMatchObject({ code: 400 });
  });

  it("that impersonates a ServiceAccount gets its groups", async () => {
    authorizer.allowed.add("impersonate serviceaccounts bot");
    const headers = { authorization: "Bearer secret", "impersonate-user": "system:serviceaccount:n:bot" };
    const user = await acting(headers);
    expect(user.groups).toEqual([
      "system:serviceaccounts",
      "system:serviceaccounts:n",
      "system:authenticated",
    ]);
  });
});
