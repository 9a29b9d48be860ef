import { createFakeNft } from "./fake.ts";
import { describeNftDriver } from "./contract.ts";

describeNftDriver("nftables in memory", async () => createFakeNft(), { runs: 200 });
