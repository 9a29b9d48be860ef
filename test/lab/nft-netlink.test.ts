import { afterAll, expect, it } from "vitest";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { loadLibC } from "@fairlead/os/libc/libc.ts";
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
  it("finds the C library here, so that the tests above mean what they say", async () => {
    expect(await loadLibC()).toBeDefined();
  });
});
