import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { loadKubeconfigs } from "@fairlead/kube/config/kubeconfig.ts";
import { IS_REAL } from "./real-server.ts";
import { startTestServer } from "./support.ts";

it.skipIf(IS_REAL)(
  "the kubeconfigs of two servers can be read together: each name means its own server",
  async () => {
    await using one = await startTestServer();
    await using two = await startTestServer();
    const files = [one, two].map((it) => it.server.kubeconfig);
    for (const [at, { server }] of [one, two].entries()) {
      const config = JSON.parse(readFileSync(files[at] ?? "", "utf8")) as { "current-context": string };
      const read = await loadKubeconfigs(files, { context: config["current-context"] });
      expect(read.server).toBe(server.url);
      expect(read.name).toBe(config["current-context"]);
    }
  },
);
