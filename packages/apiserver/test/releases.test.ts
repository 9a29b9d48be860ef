import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startTestServer } from "./support.ts";

/** Two minors of Kubernetes, one after the other in the same folder. */

const DRIVERS = "/apis/storage.k8s.io/v1/csidrivers";
/** `preventPodSchedulingIfMissing` is a field of 1.36. */
const driver = (name: string) => ({
  apiVersion: "storage.k8s.io/v1",
  kind: "CSIDriver",
  metadata: { name },
  spec: { attachRequired: false, preventPodSchedulingIfMissing: true },
});

describe("a server of an earlier minor", () => {
  let dataDir = "";
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), "apiserver-"));
  });
  afterEach(() => rm(dataDir, { recursive: true, force: true }));
  const start = (release: "1.35" | "1.36") => startTestServer({ dataDir, journal: "sqlite", release });

  it("has its version, and neither takes nor documents fields of the later one", async () => {
    await using old = await start("1.35");
    const version = (await old.call("GET", "/version")).json as unknown as Record<string, string>;
    expect([version["minor"], version["gitVersion"]]).toEqual(["35", "v1.35.0+fairlead"]);
    const refused = await old.call("POST", `${DRIVERS}?fieldValidation=Strict`, { body: driver("a") });
    expect(refused.code).toBe(400);
    expect(refused.text).toContain('unknown field \\"spec.preventPodSchedulingIfMissing\\"');
    const made = await old.call("POST", `${DRIVERS}?fieldValidation=Ignore`, { body: driver("a") });
    expect(made.json.spec).not.toHaveProperty("preventPodSchedulingIfMissing");
    const document = (await old.call("GET", "/openapi/v3/apis/storage.k8s.io/v1")).text;
    expect(document).toContain("attachRequired");
    expect(document).not.toContain("preventPodSchedulingIfMissing");
  });

  it("is upgraded with its data, and the way back is refused once a later field is stored", async () => {
    {
      await using old = await start("1.35");
      await old.call("POST", DRIVERS, { body: driver("a") });
    }
    {
      await using upgraded = await start("1.36");
      expect((await upgraded.call("GET", `${DRIVERS}/a`)).code).toBe(200);
    }
    {
      await using back = await start("1.35");
      expect((await back.call("GET", `${DRIVERS}/a`)).code).toBe(200);
    }
    {
      await using upgraded = await start("1.36");
      const made = await upgraded.call("POST", DRIVERS, { body: driver("b") });
      expect(made.json.spec["preventPodSchedulingIfMissing"]).toBe(true);
    }
    await expect(start("1.35")).rejects.toThrow(
      "cannot serve Kubernetes 1.35: CSIDriver b has spec.preventPodSchedulingIfMissing, a field of a later release",
    );
  });
});
