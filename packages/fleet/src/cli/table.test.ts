import { describe, expect, it } from "vitest";
import { renderAge, renderTable } from "./table.ts";

describe("a table", () => {
  it("pads every column but the last to its widest cell", () => {
    const columns = [
      { head: "NAME", cell: (row: { name: string; age: string }) => row.name },
      { head: "AGE", cell: (row: { name: string; age: string }) => row.age },
    ];
    const rows = [
      { name: "member-1", age: "5s" },
      { name: "hub", age: "" },
    ];
    expect(renderTable(columns, rows)).toBe("NAME       AGE\nmember-1   5s\nhub");
  });
});

describe("an age", () => {
  it.each([
    [400, "0s"],
    [59_000, "59s"],
    [60_000, "1m"],
    [252_000, "4m12s"],
    [3_600_000, "1h"],
    [187_200_000, "2d4h"],
  ])("of %i ms reads %s", (ms, text) => {
    expect(renderAge(ms)).toBe(text);
  });
});
