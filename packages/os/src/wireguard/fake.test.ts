import { describeWireguard } from "./contract.ts";
import { WireguardDevices } from "./devices.ts";
import { createFakeRecords, createFakeWireguard } from "./fake.ts";
import { publicKeyOf } from "./keys.ts";

describeWireguard(
  "WireGuard in memory",
  async () => {
    const fake = createFakeWireguard();
    const records = createFakeRecords();
    return {
      start: async () => new WireguardDevices(fake, records),
      async call(device, privateKey) {
        fake.learn(device.name, publicKeyOf(privateKey), "192.0.2.1:40000", 1_800_000_000_000);
        return "192.0.2.1:40000";
      },
      async lose(name) {
        fake.lose(name);
      },
    };
  },
  { runs: 200 },
);
