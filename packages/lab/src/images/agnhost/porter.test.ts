import { expect, it } from "vitest";
import { porterPorts } from "./porter.ts";

it("porter serves a port for each variable of its form, and overlooks others", () => {
  const env = {
    SERVE_PORT_80: "a",
    SERVE_TCP_PORT_81: "b",
    SERVE_UDP_PORT_53: "c",
    SERVE_SCTP_PORT_9003: "d",
    SERVE_TLS_PORT_443: "e",
    SERVE_PORT_: "f",
    PATH: "/bin",
  };
  expect(porterPorts(env)).toEqual([
    { protocol: "http", port: 80, text: "a" },
    { protocol: "http", port: 81, text: "b" },
    { protocol: "udp", port: 53, text: "c" },
  ]);
});
