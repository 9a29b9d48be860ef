import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { silentLogger } from "@fairlead/base/log.ts";
import { KUBEADM } from "@fairlead/fleet/cli/dns-setup/corefiles.fake.ts";
import { withStanza } from "@fairlead/fleet/cli/dns-setup/stanza.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { followCorefile, forwardsOf } from "./corefile.ts";

const WITH_ZONE = withStanza(KUBEADM, { zones: ["clusterset.local"], addresses: ["10.1.0.5", "fd00::5"] });

describe("a Corefile of a lab's cluster DNS", () => {
  it("names the servers of zones, and none for the root", () => {
    expect(forwardsOf(KUBEADM)).toEqual(new Map());
    expect(forwardsOf(WITH_ZONE)).toEqual(
      new Map([
        [
          "clusterset.local.",
          [
            { host: "10.1.0.5", port: 53, family: "IPv4" },
            { host: "fd00::5", port: 53, family: "IPv6" },
          ],
        ],
      ]),
    );
  });
});

describe("a Corefile that is followed", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "corefile-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it("is obeyed when it changes, and stays as it was while it cannot be read", async () => {
    const file = join(folder, "Corefile");
    const write = (text: string): void => {
      writeFileSync(`${file}.new`, text);
      renameSync(`${file}.new`, file);
    };
    write(KUBEADM);
    using corefile = followCorefile(file, systemDeps(silentLogger));
    const domains = (): readonly string[] => corefile.forwards().map((it) => it.domain);
    expect(domains()).toEqual([]);
    write(WITH_ZONE);
    await vi.waitFor(() => expect(domains()).toEqual(["clusterset.local."]));
    write("clusterset.local {");
    write(`${WITH_ZONE}\nexample.test { \n forward . 10.1.0.6:5353 \n}\n`);
    await vi.waitFor(() => expect(domains()).toEqual(["clusterset.local.", "example.test."]));
  });
});
