import { describePodRuntime } from "./contract.ts";
import { FakePodRuntime } from "./runtime.fake.ts";

describePodRuntime("a container runtime in memory", async () => {
  const runtime = new FakePodRuntime();
  return {
    runtime,
    name: "fake",
    run: async ({ uid, namespace, name, hostNetwork = false }) =>
      runtime.run({ podUid: uid, podNamespace: namespace, podName: name, hostNetwork }),
    end: async (uid) => runtime.end(uid),
    devices: async () => ["lo", "eth0"],
    [Symbol.asyncDispose]: () => runtime[Symbol.asyncDispose](),
  };
});
