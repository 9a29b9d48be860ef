import { expect, it } from "vitest";
import { attribute, textBytes, writeU16, writeU32 } from "./message.ts";
import { TableReports } from "./table-reports.ts";

function report(type: number, name: string): Buffer {
  const content = attribute(1, textBytes(name));
  const bytes = Buffer.alloc(20 + content.length);
  writeU32(bytes, bytes.length, 0);
  writeU16(bytes, type, 4);
  bytes.set(content, 20);
  return bytes;
}
const [NEW, DELETED] = [0x0a00, 0x0a02];

it("reports name deleted tables, wherever the pipe cuts them", () => {
  const all = Buffer.concat([report(NEW, "a"), report(DELETED, "fairlead-policy"), report(DELETED, "nat")]);
  for (let cut = 0; cut <= all.length; cut++) {
    const reports = new TableReports();
    const found = [all.subarray(0, cut), all.subarray(cut)].flatMap((it) => reports.take(it));
    expect(found).toEqual(["fairlead-policy", "nat"]);
  }
});

it("other bytes than reports are refused", () => {
  expect(new TableReports().take(Buffer.alloc(64))).toBeUndefined();
  expect(new TableReports().take(Buffer.alloc(64, 0xff))).toBeUndefined();
});
