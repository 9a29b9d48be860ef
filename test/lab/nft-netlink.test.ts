import { systemDeps } from "@fairlead/base/deps.ts";
import { exec } from "@fairlead/base/exec.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { TableWatch } from "@fairlead/os/nft/netlink/table-watch.ts";
import { afterAll, expect, it } from "vitest";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { loadLibC } from "@fairlead/os/libc/libc.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import type { NftSet, NftTable } from "@fairlead/os/nft/state.ts";
import { createNetns, deleteNetns, inNetns } from "@fairlead/os/netns/netns.ts";
import { describeNftDriver } from "@fairlead/os/nft/contract.ts";
import { describeOnKernel, netnsFixture } from "../support/netns-fixture.ts";

describeOnKernel("on the kernel", () => {
  const fixture = netnsFixture();
  afterAll(() => fixture[Symbol.asyncDispose]());
  describeNftDriver(
    "nftables with elements by netlink",
    async () => createNft({ netns: await fixture.netns("netlink") }),
    { runs: 15 },
  );
  describeNftDriver(
    "nftables where there is no foreign function interface",
    async () => createNft({ netns: await fixture.netns("fallback"), loadLibC: async () => undefined }),
    { runs: 3 },
  );
  it("works in the namespace that the file is of, also after that one was made again", async () => {
    const netns = await fixture.netns("again");
    const signal = AbortSignal.timeout(60_000);
    const table = { family: "inet", name: "t" } as const;
    const set: NftSet = { key: ["ipv4_addr"], elements: new Map([["10.0.0.1", ""]]) };
    const empty: NftTable = { chains: new Map(), sets: new Map([["s", { ...set, elements: new Map() }]]) };
    const full: NftTable = { chains: new Map(), sets: new Map([["s", set]]) };
    using nft = createNft({ netns });
    for (let time = 0; time < 2; time++) {
      await nft.apply(table, diffTable(undefined, empty), signal);
      await nft.apply(table, diffTable(empty, full), signal);
      expect((await nft.read(table, signal))?.sets.get("s")?.elements.size).toBe(1);
      await deleteNetns(netns, signal);
      await createNetns(netns, signal);
    }
  });

  it("reports tables that another program deletes, and those alone", async () => {
    const netns = await fixture.netns("watched");
    const nft = async (...words: readonly string[]): Promise<void> => {
      const line = inNetns(netns, "nft", words);
      await exec(line.command, line.args);
    };
    let count = 0;
    const deps = systemDeps(silentLogger);
    const watch = new TableWatch({ netns, tables: ["watched"], onDeleted: () => count++, deps });
    try {
      // Until the program listens.
      await expect
        .poll(async () => {
          await nft("add", "table", "inet", "watched");
          await nft("delete", "table", "inet", "watched");
          return count;
        })
        .toBeGreaterThan(0);
      const before = count;
      await nft("add", "table", "inet", "other");
      await nft("delete", "table", "inet", "other");
      await nft("add", "table", "inet", "watched");
      await nft("flush", "ruleset");
      await expect.poll(() => count).toBeGreaterThan(before);
    } finally {
      await watch[Symbol.asyncDispose]();
    }
  });

  it("finds the C library here, so that the tests above mean what they say", async () => {
    expect(await loadLibC()).toBeDefined();
  });
});
