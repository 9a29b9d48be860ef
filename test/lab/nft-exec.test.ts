import { afterAll } from "vitest";
import { createExecNft } from "@fairlead/os/nft/exec.ts";
import { describeNftDriver } from "@fairlead/os/nft/contract.ts";
import { describeOnKernel, netnsFixture, prefixOf } from "../support/netns-fixture.ts";

describeOnKernel("on the kernel", () => {
  const fixture = netnsFixture();
  afterAll(() => fixture[Symbol.asyncDispose]());
  describeNftDriver(
    "nftables by the nft program",
    async () => createExecNft({ prefix: prefixOf(await fixture.netns("exec")) }),
    { runs: 15 },
  );
});
