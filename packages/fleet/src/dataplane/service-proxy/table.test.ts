import { expect, it } from "vitest";
import { renderTable } from "./table.ts";

/** The most rules that fit into one transaction of an unprivileged user (netlink: "Message too long" at about 350). */
const MAX_RULES = 300;

it("the table has no more rules than a lab without root can load at once", () => {
  const { chains } = renderTable(new Map());
  const rules = [...chains.values()].reduce((count, chain) => count + chain.rules.length, 0);
  expect(rules).toBeLessThan(MAX_RULES);
});
