import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { describeKubeClient } from "./contract.ts";

describeKubeClient("the API server in memory", async () => {
  const client = new FakeKubeClient();
  return { client, [Symbol.asyncDispose]: () => client[Symbol.asyncDispose]() };
});
