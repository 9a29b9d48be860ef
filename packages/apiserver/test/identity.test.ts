import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import {
  createRemoteJWKSet,
  customFetch,
  exportJWK,
  generateKeyPair,
  jwtVerify,
  type JWTPayload,
  SignJWT,
} from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { parseTokenFile } from "#auth/static-tokens.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { issueAuthority, issueServerCertificate } from "@fairlead/base/pki/issue.ts";
import { type Answer, type Json, startTestServer, type TestServer } from "./support.ts";

/** Bearer tokens of every kind, at a server that takes them all. */

const WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/** An OpenID Connect issuer, over TLS with an authority of its own. */
class Issuer {
  readonly #keys;
  readonly #server: Server;
  readonly url: string;
  readonly ca: string;
  asked: string[] = [];

  private constructor(keys: Awaited<ReturnType<typeof generateKeyPair>>, server: Server, ca: string) {
    this.#keys = keys;
    this.#server = server;
    this.ca = ca;
    this.url = `https://localhost:${(server.address() as AddressInfo).port}`;
  }

  static async start(): Promise<Issuer> {
    const authority = await issueAuthority({ commonName: "issuer-ca" });
    const { cert, key } = await issueServerCertificate(authority, {
      names: ["localhost"],
      ips: ["127.0.0.1"],
    });
    const keys = await generateKeyPair("RS256", { extractable: true });
    const jwk = { ...(await exportJWK(keys.publicKey)), kid: "one", alg: "RS256", use: "sig" };
    const server = createServer({ cert, key });
    await new Promise<void>((resolve) => {
      server.listen(0, "localhost", resolve);
    });
    const issuer = new Issuer(keys, server, authority.cert);
    server.on("request", (request, response) => {
      issuer.asked.push(request.url ?? "");
      const configuration = { issuer: issuer.url, jwks_uri: `${issuer.url}/keys` };
      response.end(JSON.stringify(request.url === "/keys" ? { keys: [jwk] } : configuration));
    });
    return issuer;
  }

  token(claims: JWTPayload, seconds = 600, key = this.#keys.privateKey): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    return new SignJWT({ iss: this.url, aud: "cluster", sub: "ada", exp: now + seconds, ...claims })
      .setProtectedHeader({ alg: "RS256", kid: "one" })
      .sign(key);
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

let issuer: Issuer;
let test: TestServer;
beforeAll(async () => {
  issuer = await Issuer.start();
  test = await startTestServer({
    authentication: {
      staticTokens: parseTokenFile('secret-1,bob,bob-uid,"devs,ops"\nsecret-2,eve,\n'),
      bootstrapTokens: true,
      oidc: {
        issuerUrl: issuer.url,
        clientId: "cluster",
        groupsClaim: "groups",
        groupsPrefix: "sso:",
        requiredClaims: { tenant: "blue" },
        ca: issuer.ca,
      },
    },
  });
});
afterAll(async () => {
  issuer.stop();
  await test[Symbol.asyncDispose]();
});

function call(token: string): Promise<Answer> {
  return test.call("POST", WHO, { body: {}, anonymous: true, headers: { Authorization: `Bearer ${token}` } });
}

async function user(token: string): Promise<unknown> {
  const { json } = await call(token);
  return json.status["userInfo"];
}

describe("a token of the token file", () => {
  it("authenticates its user, with uid and groups", async () => {
    expect(await user("secret-1")).toEqual({
      username: "bob",
      uid: "bob-uid",
      groups: ["devs", "ops", "system:authenticated"],
    });
    expect(await user("secret-2")).toEqual({ username: "eve", groups: ["system:authenticated"] });
  });

  it.each(["only-a-token", "token,name", ",name,uid"])("is not accepted from %j", (line) => {
    expect(() => parseTokenFile(line)).toThrow("line 1 of the token file");
  });

  it("is only valid for the server's own audience in a review", async () => {
    const review = async (audiences?: string[]): Promise<Json> => {
      const path = "/apis/authentication.k8s.io/v1/tokenreviews";
      return (await test.call("POST", path, { body: { spec: { token: "secret-1", audiences } } })).json;
    };
    expect((await review()).status).toMatchObject({ authenticated: true, user: { username: "bob" } });
    expect((await review(["vault"])).status["authenticated"]).toBeUndefined();
  });
});

describe("an identity token of OpenID Connect", () => {
  it("authenticates its subject, with the configured prefixes", async () => {
    expect(await user(await issuer.token({ tenant: "blue", groups: ["devs"] }))).toEqual({
      username: `${issuer.url}#ada`,
      groups: ["sso:devs", "system:authenticated"],
    });
    expect(await user(await issuer.token({ tenant: "blue", groups: "one" }))).toMatchObject({
      groups: ["sso:one", "system:authenticated"],
    });
  });

  it("is rejected with missing or invalid claims, when expired, and with another key", async () => {
    const { privateKey } = await generateKeyPair("RS256");
    const bad = await Promise.all([
      issuer.token({}),
      issuer.token({ tenant: "red" }),
      issuer.token({ tenant: "blue", aud: "other" }),
      issuer.token({ tenant: "blue", sub: "" }),
      issuer.token({ tenant: "blue", groups: { a: 1 } }),
      issuer.token({ tenant: "blue" }, -1),
      issuer.token({ tenant: "blue" }, 600, privateKey),
    ]);
    for (const token of bad) expect((await call(token)).code).toBe(401);
  });

  it("of another issuer causes no request to the configured issuer", async () => {
    await user(await issuer.token({ tenant: "blue" }));
    issuer.asked = [];
    expect((await call(await issuer.token({ iss: "https://elsewhere.example", tenant: "blue" }))).code).toBe(
      401,
    );
    expect((await call("no.token.atall")).code).toBe(401);
    expect(issuer.asked).toEqual([]);
  });

  it("is rejected while the issuer's certificate is not trusted", async () => {
    await using strict = await startTestServer({
      authentication: { oidc: { issuerUrl: issuer.url, clientId: "cluster" } },
    });
    const headers = { Authorization: `Bearer ${await issuer.token({})}` };
    expect((await strict.call("POST", WHO, { body: {}, anonymous: true, headers })).code).toBe(401);
  });

  it.each(["http://issuer.example", "https://user@issuer.example", "https://issuer.example?x=1", "issuer"])(
    "is not taken from %s",
    async (issuerUrl) => {
      const started = startTestServer({ authentication: { oidc: { issuerUrl, clientId: "x" } } });
      await expect(started).rejects.toMatchObject({ code: "OPTION_INVALID" });
    },
  );
});

describe("a bootstrap token", () => {
  const SECRETS = "/api/v1/namespaces/kube-system/secrets";
  const TOKEN = "abcdef.0123456789abcdef";
  const clock = new FakeClock(Date.now());
  let joining: TestServer;
  beforeAll(async () => {
    joining = await startTestServer({ clock, authentication: { bootstrapTokens: true } });
  });
  afterAll(() => joining[Symbol.asyncDispose]());
  beforeEach(() => joining.call("DELETE", `${SECRETS}/bootstrap-token-abcdef`));

  async function secret(
    data: Record<string, string>,
    type = "bootstrap.kubernetes.io/token",
  ): Promise<number> {
    const stringData = {
      "token-id": "abcdef",
      "token-secret": "0123456789abcdef",
      "usage-bootstrap-authentication": "true",
      ...data,
    };
    const body = { metadata: { name: "bootstrap-token-abcdef" }, type, stringData };
    return (await joining.call("POST", SECRETS, { body })).code;
  }

  async function join(token = TOKEN): Promise<Answer> {
    const headers = { Authorization: `Bearer ${token}` };
    return joining.call("POST", WHO, { body: {}, anonymous: true, headers });
  }

  it("authenticates with the groups of its Secret", async () => {
    expect(await secret({ "auth-extra-groups": "system:bootstrappers:site-a" })).toBe(201);
    expect((await join()).json.status["userInfo"]).toEqual({
      username: "system:bootstrap:abcdef",
      groups: ["system:bootstrappers", "system:bootstrappers:site-a", "system:authenticated"],
    });
  });

  it("expires at the time in the Secret", async () => {
    await secret({ expiration: new Date(clock.now() + 60_000).toISOString() });
    expect((await join()).code).toBe(201);
    await clock.advance(60_000);
    expect((await join()).code).toBe(401);
  });

  it.each<[string, Record<string, string>]>([
    ["another secret", { "token-secret": "fedcba9876543210" }],
    ["no usage for authentication", { "usage-bootstrap-authentication": "false" }],
    ["an invalid time", { expiration: "tomorrow" }],
    ["a group without the prefix system:bootstrappers", { "auth-extra-groups": "system:masters" }],
  ])("is rejected with %s", async (_what, data) => {
    await secret(data);
    expect((await join()).code).toBe(401);
  });

  it("is rejected if the Secret has another type or is deleted, or if bootstrap tokens are disabled", async () => {
    await secret({}, "Opaque");
    expect((await join()).code).toBe(401);
    await joining.call("DELETE", `${SECRETS}/bootstrap-token-abcdef`);
    expect((await join()).code).toBe(401);
    await using closed = await startTestServer();
    const headers = { Authorization: `Bearer ${TOKEN}` };
    expect((await closed.call("POST", WHO, { body: {}, anonymous: true, headers })).code).toBe(401);
  });
});

describe("a ServiceAccount's token", () => {
  it("can be verified by others, with the keys that the server publishes", async () => {
    const accounts = "/api/v1/namespaces/default/serviceaccounts";
    await test.call("POST", accounts, { body: { metadata: { name: "robot" } } });
    const { json } = await test.call("POST", `${accounts}/robot/token`, {
      body: { spec: { audiences: ["vault"] } },
    });
    const headers = { Authorization: `Bearer ${String(json.status["token"])}` };
    const configuration = await test.call("GET", "/.well-known/openid-configuration");
    expect(configuration.json).toMatchObject({
      issuer: "https://kubernetes.default.svc.cluster.local",
      id_token_signing_alg_values_supported: ["ES256"],
    });
    const keys = createRemoteJWKSet(new URL(String(configuration.json["jwks_uri"])), {
      [customFetch]: async (url: string) => {
        const answer = await test.call("GET", new URL(url).pathname);
        expect(answer.headers["content-type"]).toBe("application/jwk-set+json");
        return new Response(answer.text);
      },
    });
    const { payload } = await jwtVerify(headers.Authorization.slice(7), keys, { audience: "vault" });
    expect(payload.sub).toBe("system:serviceaccount:default:robot");
  });

  it("may read the issuer's keys like any ServiceAccount, unlike other users", async () => {
    const accounts = "/api/v1/namespaces/default/serviceaccounts";
    await test.call("POST", accounts, { body: { metadata: { name: "reader" } } });
    const { json } = await test.call("POST", `${accounts}/reader/token`, { body: {} });
    const ask = async (token: string): Promise<number> => {
      const headers = { Authorization: `Bearer ${token}` };
      return (await test.call("GET", "/openid/v1/jwks", { anonymous: true, headers })).code;
    };
    expect(await ask(String(json.status["token"]))).toBe(200);
    expect(await ask("secret-1")).toBe(403);
  });
});

describe("a request without credentials", () => {
  it("is rejected on every path if anonymous access is disabled", async () => {
    await using strict = await startTestServer({ authentication: { anonymous: false } });
    for (const path of ["/healthz", "/version", "/api"]) {
      expect((await strict.call("GET", path, { anonymous: true })).code).toBe(401);
    }
  });
});
