import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { readHubEnvironment } from "./hub-environment.ts";

let dir: string;
let file: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "hub-environment-"));
  file = join(dir, "token");
});
afterAll(() => rm(dir, { recursive: true }));

const PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
const good = (): Record<string, string> => ({
  HUB_SERVER_URL: "https://hub:443",
  CONFIG_PATH: file,
  MEMBER_CLUSTER_NAME: "east",
});
const read = (more: Record<string, string | undefined> = {}, isInsecure = false) =>
  readHubEnvironment({ ...good(), ...more }, { isInsecure, clock: new FakeClock() });

describe("the environment variables for the hub", () => {
  it("has the address of the hub, the name of the member and the CA of the hub", () => {
    const { cluster, config } = read({ HUB_CERTIFICATE_AUTHORITY: Buffer.from(PEM).toString("base64") });
    expect([cluster, config.server, config.ca, config.insecureSkipTlsVerify]).toEqual([
      "east",
      "https://hub:443",
      PEM,
      undefined,
    ]);
  });

  it("C8: verifies the hub's certificate unless disabled; without a CA, with those of the system", () => {
    expect(read({ HUB_CERTIFICATE_AUTHORITY: "" }).config).not.toHaveProperty("ca");
    expect(read().config.insecureSkipTlsVerify).toBeUndefined();
    expect(read({}, true).config.insecureSkipTlsVerify).toBe(true);
  });

  it("ignores the CA if verification is disabled: the original charts have a placeholder there", () => {
    const { config } = read({ HUB_CERTIFICATE_AUTHORITY: "<certificate_authority_data>" }, true);
    expect(config).not.toHaveProperty("ca");
  });

  it.each([
    ["HUB_SERVER_URL", undefined, "HUB_SERVER_URL is not set"],
    ["HUB_SERVER_URL", "hub", "HUB_SERVER_URL is not the URL"],
    ["CONFIG_PATH", "", "CONFIG_PATH is not set"],
    ["MEMBER_CLUSTER_NAME", "Not/A", "MEMBER_CLUSTER_NAME is not the name"],
    ["HUB_CERTIFICATE_AUTHORITY", "!!!", "HUB_CERTIFICATE_AUTHORITY is not a base64-encoded"],
    ["HUB_KUBE_HEADER", "no colon", "HUB_KUBE_HEADER has a line"],
    ["HUB_KUBE_HEADER", "Authorization: Bearer x", "must not set the header Authorization"],
  ])("is refused with %s %j, by name", (name, value, message) => {
    expect(() => read({ [name]: value })).toThrow(message);
  });

  it("may have headers for a gateway, as lines", () => {
    const { headers } = read({ HUB_KUBE_HEADER: "X-One: 1\r\nX-Two:  two words \n" }).config;
    expect(headers).toEqual({ "x-one": "1", "x-two": "two words" });
  });

  it("has a token that may come later, and is read again when the hub refuses it", async () => {
    const { config, hasToken } = read();
    expect(await hasToken()).toBe(false);
    await writeFile(file, "first\n");
    expect(await hasToken()).toBe(true);
    expect(await config.credentials.current()).toEqual({ token: "first" });
    await writeFile(file, "second\n");
    config.credentials.expire();
    expect(await config.credentials.current()).toEqual({ token: "second" });
  });
});
