import { expect, it } from "vitest";
import { parseDeviceCounters } from "./device-counters.ts";

it("sums the packets that each device has received and sent", () => {
  const text = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  129624    1410    0    0    0     0          0         0   129624    1410    0    0    0     0       0          0
fl-wg01:123456789012 7    0    0    0     0          0         0       30       5    0    0    0     0       0          0
`;
  expect(parseDeviceCounters(text)).toEqual(
    new Map([
      ["lo", 2820],
      ["fl-wg01", 12],
    ]),
  );
});
