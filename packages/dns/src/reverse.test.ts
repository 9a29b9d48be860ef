import { expect, it } from "vitest";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { reverseDomains } from "./reverse.ts";

it.each([
  ["10.112.0.0/16", ["112.10.in-addr.arpa"]],
  ["10.112.0.0/14", ["112", "113", "114", "115"].map((it) => `${it}.10.in-addr.arpa`)],
  ["10.1.2.254/31", ["254.2.1.10.in-addr.arpa", "255.2.1.10.in-addr.arpa"]],
  ["0.0.0.0/0", ["in-addr.arpa"]],
  ["fd00:1::/48", ["0.0.0.0.1.0.0.0.0.0.d.f.ip6.arpa"]],
  ["fd00::/15", ["0.0.d.f.ip6.arpa", "1.0.d.f.ip6.arpa"]],
])("the reverse names of %s are in the domains %j", (prefix, domains) => {
  expect(reverseDomains(parsePrefix(prefix))).toEqual(domains);
});
