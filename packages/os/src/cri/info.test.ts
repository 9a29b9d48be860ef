import { expect, it } from "vitest";
import { netnsOf } from "./info.ts";

const spec = (...namespaces: readonly object[]): object => ({ runtimeSpec: { linux: { namespaces } } });

it.each([
  [
    "containerd names the file",
    { pid: 7, ...spec({ type: "pid" }, { type: "network", path: "/run/netns/cni-1" }) },
    "/run/netns/cni-1",
  ],
  [
    "the runtime made the namespace for the process",
    { pid: 7, ...spec({ type: "network" }) },
    "/proc/7/ns/net",
  ],
  ["the runtime reports the process alone", { pid: 7 }, "/proc/7/ns/net"],
  ["the process is in the machine's namespace", { pid: 7, ...spec({ type: "pid" }) }, undefined],
  ["a path is relative", { ...spec({ type: "network", path: "netns/1" }) }, undefined],
  ["the process has no id that it can have", { pid: 0 }, undefined],
  ["the process id is a text", { pid: "7/../1" }, undefined],
  ["the fields have other types", { pid: 7.5, runtimeSpec: { linux: { namespaces: 5 } } }, undefined],
])("the network namespace of a sandbox where %s", (_, info, expected) => {
  expect(netnsOf(JSON.stringify(info))).toBe(expected);
});

it.each(["", "null", "[]", "{", '"text"'])("%j says nothing of a network namespace", (text) => {
  expect(netnsOf(text)).toBeUndefined();
});
