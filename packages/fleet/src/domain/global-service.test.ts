import { describe, expect, it } from "vitest";
import { chooseSides, isGlobalService, readGlobalSettings, sliceWeight } from "./global-service.ts";

const read = (annotations?: Record<string, string>) =>
  readGlobalSettings({ metadata: { name: "hello", ...(annotations === undefined ? {} : { annotations }) } });
const GLOBAL = { "service.cilium.io/global": "true" };

describe("the annotations of a Service", () => {
  it.each([
    [undefined, false],
    [{}, false],
    [{ "service.cilium.io/global": "true" }, true],
    [{ "service.cilium.io/global": "TRUE" }, true],
    [{ "service.cilium.io/global": "false" }, false],
    [{ "service.cilium.io/global": "yes" }, false],
    [{ "service.cilium.io/global": "" }, false],
    [{ "io.cilium/global-service": "true" }, true],
    [{ "io.cilium/global-service": "True" }, true],
    // The first key that is present decides, even if its value is bad.
    [{ "service.cilium.io/global": "bad", "io.cilium/global-service": "true" }, false],
    [{ "service.cilium.io/global": "true", "io.cilium/global-service": "false" }, true],
  ])("%j make it global: %j", (annotations, expected) => {
    expect(read(annotations).isGlobal).toBe(expected);
    const metadata = { name: "hello", ...(annotations === undefined ? {} : { annotations }) };
    expect(isGlobalService({ metadata })).toBe(expected);
  });

  const VALUES = [undefined, "true", "TRUE", "false", "bad", ""] as const;
  /** The rule in other words: the main key, else the alias; absent is the default; only "true" is true. */
  const expectedOf = (main: string | undefined, alias: string | undefined): boolean => {
    const decides = main ?? alias ?? "true";
    return decides.toLowerCase() === "true";
  };

  it.each(VALUES.flatMap((main) => VALUES.map((alias) => [main, alias] as const)))(
    "share a global Service by default; with the key %j and the alias %j as the first of them says",
    (main, alias) => {
      const annotations = {
        ...GLOBAL,
        ...(main === undefined ? {} : { "service.cilium.io/shared": main }),
        ...(alias === undefined ? {} : { "io.cilium/shared-service": alias }),
      };
      const settings = read(annotations);
      expect(settings).toMatchObject({ isGlobal: true, isShared: expectedOf(main, alias) });
      const decides = main ?? alias ?? "true";
      expect(settings.problems.length).toBe(/^(true|false)$/i.test(decides) ? 0 : 1);
    },
  );

  it("share nothing of a Service that is not global", () => {
    expect(read({ "service.cilium.io/shared": "true" })).toEqual({
      isGlobal: false,
      isShared: false,
      affinity: "none",
      syncsSlices: true,
      problems: [],
    });
  });

  it.each([
    [undefined, undefined, "none"],
    ["local", undefined, "local"],
    ["Remote", undefined, "remote"],
    ["none", "local", "none"],
    [undefined, "local", "local"],
    [undefined, "remote", "remote"],
    ["near", "local", "none"],
    ["", "local", "none"],
  ])("with the affinity %j and its alias %j prefer %s", (main, alias, expected) => {
    const settings = read({
      ...GLOBAL,
      ...(main === undefined ? {} : { "service.cilium.io/affinity": main }),
      ...(alias === undefined ? {} : { "io.cilium/service-affinity": alias }),
    });
    expect(settings.affinity).toBe(expected);
  });

  it("report an unknown affinity, and what is used instead", () => {
    expect(read({ ...GLOBAL, "io.cilium/service-affinity": "near" }).problems).toEqual([
      'io.cilium/service-affinity: must be one of none, local, remote, got "near"; using "none"',
    ]);
  });

  it.each([
    [undefined, true],
    ["true", true],
    ["True", true],
    ["false", false],
    ["bad", false],
  ])(
    "let every service proxy see endpoints of other clusters with the synchronization %j: %j",
    (value, expected) => {
      const sync = value === undefined ? {} : { "service.cilium.io/global-sync-endpoint-slices": value };
      expect(read({ ...GLOBAL, ...sync }).syncsSlices).toBe(expected);
    },
  );

  it.each([
    ["lb-algorithm", "maglev", "random"],
    ["forwarding-mode", "dsr", "snat"],
    ["node", "n1", undefined],
    ["node-selector", "a=b", undefined],
    ["type", "NodePort", undefined],
    ["src-ranges-policy", "deny", "allow"],
    ["proxy-delegation", "delegate-if-local", "none"],
  ])(
    "for Cilium's service proxy, as %s, are reported unless they say what every proxy does",
    (key, value, harmless) => {
      const name = `service.cilium.io/${key}`;
      expect(read({ ...GLOBAL, [name]: value }).problems).toEqual([
        `${name}: "${value}" is a setting of Cilium's own service proxy, and is ignored`,
      ]);
      if (harmless !== undefined) expect(read({ ...GLOBAL, [name]: harmless }).problems).toEqual([]);
    },
  );
});

it.each([
  [undefined, undefined],
  ["0", 0],
  ["1", 1],
  ["65535", 65_535],
  ["65536", undefined],
  ["-1", undefined],
  ["1.5", undefined],
  ["", undefined],
  ["many", undefined],
])("the weight %j of a slice is %j", (value, expected) => {
  expect(sliceWeight(value === undefined ? undefined : { "service.cilium.io/weight": value })).toBe(expected);
});

describe("the affinity of a global Service", () => {
  const NONE = { isActive: false, isHealthy: false };
  const TERMINATING = { isActive: false, isHealthy: true };
  const ACTIVE = { isActive: true, isHealthy: true };
  const both = { local: true, remote: true };
  const own = { local: true, remote: false };
  const others = { local: false, remote: true };

  it.each([
    // Local and remote together, whatever is healthy.
    ...[NONE, TERMINATING, ACTIVE].flatMap((local) =>
      [NONE, TERMINATING, ACTIVE].map((remote) => ["none", local, remote, both] as const),
    ),
    // The own ones always; others where no own one is active, and one of the other ones is healthy.
    ["local", ACTIVE, NONE, own],
    ["local", ACTIVE, TERMINATING, own],
    ["local", ACTIVE, ACTIVE, own],
    ["local", TERMINATING, NONE, own],
    ["local", TERMINATING, TERMINATING, both],
    ["local", TERMINATING, ACTIVE, both],
    ["local", NONE, NONE, own],
    ["local", NONE, TERMINATING, both],
    ["local", NONE, ACTIVE, both],
    // The others' always; own ones where none of the others' is healthy, and one of the own ones is.
    ["remote", ACTIVE, NONE, both],
    ["remote", ACTIVE, TERMINATING, others],
    ["remote", ACTIVE, ACTIVE, others],
    ["remote", TERMINATING, NONE, both],
    ["remote", TERMINATING, TERMINATING, others],
    ["remote", TERMINATING, ACTIVE, others],
    ["remote", NONE, NONE, others],
    ["remote", NONE, TERMINATING, others],
    ["remote", NONE, ACTIVE, others],
  ] as const)("%s, with %j here and %j elsewhere, uses %j", (affinity, local, remote, expected) => {
    expect(chooseSides(affinity, local, remote)).toEqual(expected);
  });
});
