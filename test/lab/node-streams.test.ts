import type { IncomingMessage } from "node:http";
import { request as secureRequest } from "node:https";
import type { Duplex } from "node:stream";
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import type { Container, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { LOG_TIMES_FILE, MAX_LOG_BYTES } from "@fairlead/lab/node/container/log-bound.ts";
import { decodeFrame, encodeData, encodeSynStream } from "@fairlead/lab/node/server/spdy/frames.ts";
import { HeaderWriter } from "@fairlead/lab/node/server/spdy/header-block.ts";
import { issueAuthority, issueClientCertificate } from "@fairlead/base/pki/issue.ts";
import { ensureClusterPki } from "@fairlead/base/pki/cluster.ts";
import { found } from "../support/lab-fixture.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { ECHO, IDLE, NodeWorld, script } from "./node-world.ts";

const POD = "/api/v1/namespaces/default/pods/shell";

describeOnKernel("the kubelet's server, through the API server", () => {
  let world: NodeWorld;
  beforeAll(async () => {
    world = await NodeWorld.create();
    await world.startNode();
    await world.createPod("shell", [script(`echo first; echo second; ${IDLE}`), ECHO]);
    await world.untilReady("shell");
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
  });

  const tls = () => ({ ca: world.api.ca, cert: world.api.admin.cert, key: world.api.admin.key });

  /** What comes back on a channel, as text, and the end. */
  interface Session {
    readonly channels: Map<number, string>;
    readonly protocol: string;
    readonly closed: Promise<void>;
    send(channel: number, text: string): void;
    received(channel: number, text: string): Promise<void>;
    status(): unknown;
  }

  async function open(query: string, protocols: readonly string[] = ["v5.channel.k8s.io"]): Promise<Session> {
    const url = `${world.api.url.replace("https", "wss")}${query}`;
    const socket = new WebSocket(url, [...protocols], tls());
    const channels = new Map<number, string>();
    const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    const received = (channel: number, text: string): Promise<void> =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (channels.get(channel)?.includes(text) === true) resolve();
        };
        socket.on("message", look);
        socket.once("close", () =>
          reject(new Error(`closed; channel ${channel} said ${channels.get(channel)}`)),
        );
        look();
      });
    socket.on("message", (data: Buffer) => {
      const channel = data[0] ?? 0;
      channels.set(channel, (channels.get(channel) ?? "") + data.subarray(1).toString("latin1"));
    });
    await new Promise<void>((resolve, reject) => {
      socket.once("open", () => resolve());
      socket.once("error", reject);
    });
    return {
      channels,
      protocol: socket.protocol,
      closed,
      received,
      send: (channel, text) =>
        socket.send(Buffer.concat([Buffer.from([channel]), Buffer.from(text, "latin1")])),
      status: (): unknown => JSON.parse(channels.get(3) ?? "null") as unknown,
    };
  }

  const exec = (command: readonly string[], flags = "stdout=true&stderr=true", container = "main"): string =>
    `${POD}/exec?container=${container}&${flags}&${command.map((it) => `command=${encodeURIComponent(it)}`).join("&")}`;

  async function get(path: string): Promise<{ readonly code: number; readonly text: string }> {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      secureRequest(`${world.api.url}${path}`, { ...tls(), agent: false }, resolve)
        .once("error", reject)
        .end();
    });
    let text = "";
    for await (const chunk of answer.setEncoding("utf8")) text += chunk as string;
    return { code: answer.statusCode ?? 0, text };
  }

  describe("exec over WebSocket", () => {
    it("separates output and errors and reports the exit code", async () => {
      const session = await open(exec(["sh", "-c", "echo out; echo err >&2; exit 3"]));
      await session.closed;
      expect([session.channels.get(1), session.channels.get(2)]).toEqual(["out\n", "err\n"]);
      expect(session.status()).toMatchObject({
        status: "Failure",
        reason: "NonZeroExitCode",
        details: { causes: [{ reason: "ExitCode", message: "3" }] },
      });
    });

    it("passes arguments as they are, and runs in the container's root with its environment", async () => {
      const session = await open(
        exec([
          "sh",
          "-c",
          'printf "%s|" "$@" "$HOSTNAME"; cat /etc/hostname',
          "sh",
          "a b",
          "$(id)",
          "new\nline",
          "\\n",
        ]),
      );
      await session.closed;
      expect(session.channels.get(1)).toBe("a b|$(id)|new\nline|\\n|shell|shell\n");
      expect(session.status()).toMatchObject({ status: "Success" });
    });

    it("starts a program after few reads, however long its environment and arguments are", async () => {
      // The count of a process includes what it read before another program replaced its own.
      const session = await open(
        exec(["grep", "syscr", "/proc/self/io", ...Array<string>(50).fill("/proc/self/io")]),
      );
      await session.closed;
      const [, reads] = /syscr: (\d+)/.exec(session.channels.get(1) ?? "") ?? [];
      expect(Number(reads)).toBeLessThan(100);
    });

    it("ends the program's input when the client closes that channel (v5)", async () => {
      const session = await open(exec(["wc", "-c"], "stdin=true&stdout=true"));
      session.send(0, "12345");
      session.send(255, "\u0000");
      await session.closed;
      expect(session.channels.get(1)).toBe("5\n");
    });

    it("speaks v4 with a client that offers no v5", async () => {
      const session = await open(exec(["true"]), ["v4.channel.k8s.io"]);
      await session.closed;
      expect(session.protocol).toBe("v4.channel.k8s.io");
      expect(session.status()).toMatchObject({ status: "Success" });
    });

    it("allocates a named terminal of the client's size", async () => {
      const session = await open(
        exec(["sh", "-c", "tty; read line; stty size; exit 5"], "stdin=true&stdout=true&tty=true"),
      );
      await session.received(1, "/dev/pts/");
      session.send(4, JSON.stringify({ Width: 99, Height: 33 }));
      session.send(0, "go\n");
      await session.closed;
      expect(session.channels.get(1)).toContain("33 99\r\n");
      expect(session.status()).toMatchObject({ details: { causes: [{ message: "5" }] } });
    });

    it("reports a missing program", async () => {
      const session = await open(exec(["no-such-program"]));
      await session.closed;
      expect(session.channels.get(2)).toContain('"no-such-program": executable file not found in $PATH');
      expect(session.status()).toMatchObject({ details: { causes: [{ message: "127" }] } });
    });
  });

  it("runs commands over SPDY/3.1 for older clients and the MCS suite", async () => {
    const { socket, protocol } = await upgradeSpdy(
      exec(["sh", "-c", "cat; echo err >&2; exit 4"], "stdin=true&stdout=true&stderr=true"),
    );
    expect(protocol).toBe("v4.channel.k8s.io");
    const writer = new HeaderWriter();
    for (const [at, type] of ["error", "stdin", "stdout", "stderr"].entries())
      socket.write(encodeSynStream(2 * at + 1, await writer.write(new Map([["streamtype", type]]))));
    socket.write(encodeData(3, Buffer.from("typed\n"), true));
    const streams = await readStreams(socket);
    expect([streams.get(5), streams.get(7)]).toEqual(["typed\n", "err\n"]);
    expect(JSON.parse(streams.get(1) ?? "null")).toMatchObject({
      reason: "NonZeroExitCode",
      details: { causes: [{ message: "4" }] },
    });
  });

  /** As client-go asks: a POST that offers several versions. */
  function upgradeSpdy(path: string): Promise<{ readonly socket: Duplex; readonly protocol: unknown }> {
    const versions = ["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io"];
    const headers = { connection: "Upgrade", upgrade: "SPDY/3.1", "x-stream-protocol-version": versions };
    return new Promise((resolve, reject) => {
      const asked = secureRequest(`${world.api.url}${path}`, {
        ...tls(),
        method: "POST",
        headers,
        agent: false,
      });
      asked.once("upgrade", (answer, socket) =>
        resolve({ socket, protocol: answer.headers["x-stream-protocol-version"] }),
      );
      asked.once("response", (answer) => reject(new Error(`refused with ${answer.statusCode}`)));
      asked.once("error", reject);
      asked.end();
    });
  }

  async function readStreams(socket: Duplex): Promise<ReadonlyMap<number, string>> {
    const streams = new Map<number, string>();
    let pending = Buffer.alloc(0);
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      pending = Buffer.concat([pending, chunk]);
      for (let next = decodeFrame(pending); next !== undefined; next = decodeFrame(pending)) {
        pending = pending.subarray(next.length);
        if (next.frame.type !== "data") continue;
        const { streamId, data } = next.frame;
        streams.set(streamId, (streams.get(streamId) ?? "") + data.toString());
      }
    }
    return streams;
  }

  it("forwards a port to the pod's own loopback, with the port in front of each channel", async () => {
    const session = await open(`${POD}/portforward?ports=8080`, ["v4.channel.k8s.io"]);
    session.send(0, "GET /through HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n");
    await session.received(0, "/shell saw 127.0.0.1 ask GET /through");
    expect(session.channels.get(0)?.slice(0, 2)).toBe("\u0090\u001f");
  });

  it("shows on attach what the container prints from then on", async () => {
    const session = await open(`${POD}/attach?container=main&stdout=true&stderr=true`);
    const printing = await open(exec(["sh", "-c", "echo later > /proc/1/fd/1"]));
    await printing.closed;
    await session.received(1, "later");
    expect(session.channels.get(1)).not.toContain("first");
  });

  it("attaches to a container's own terminal, and resizes it", async () => {
    const shell: Container = {
      ...script('tty; stty -echo; while read -r line; do echo "<$line> $(stty size)"; done', "main"),
      tty: true,
      stdin: true,
      stdinOnce: true,
    };
    await world.createPod("terminal", [shell]);
    const pod = await world.untilReady("terminal");
    const query = "container=main&stdin=true&stdout=true&tty=true";
    const session = await open(`/api/v1/namespaces/default/pods/terminal/attach?${query}`);
    session.send(4, JSON.stringify({ Width: 77, Height: 33 }));
    const isResized = (): boolean => {
      session.send(0, "hello\n");
      return session.channels.get(1)?.includes("<hello> 33 77\r\n") ?? false;
    };
    await expect.poll(isResized, { timeout: 20_000 }).toBe(true);
    expect(readFileSync(join(world.runFolder(pod, "main"), "log"), "utf8")).toContain("/dev/console\r\n");
    // Control-D ends the input of a terminal.
    session.send(0, "\u0004");
    await session.closed;
    expect(session.status()).toMatchObject({ status: "Success" });
    await world.until("terminal", (it) => (it?.status?.containerStatuses?.[0]?.restartCount ?? 0) > 0);
    await world.deletePod("terminal");
  });

  it("keeps a terminal and its program when the kubelet is killed", async () => {
    const shell: Container = {
      ...script('while read -r line; do echo "<$line>"; done'),
      tty: true,
      stdin: true,
    };
    await world.createPod("survivor", [shell]);
    await world.untilReady("survivor");
    await world.killNode();
    await world.startNode();
    const query = "container=main&stdin=true&stdout=true&tty=true";
    const session = await open(`/api/v1/namespaces/default/pods/survivor/attach?${query}`);
    session.send(0, "still here\n");
    await session.received(1, "<still here>");
    expect(world.pod("survivor")?.status?.containerStatuses?.[0]?.restartCount).toBe(0);
    await world.deletePod("survivor");
  });

  it("ends the input of a container with stdinOnce when its client has gone", async () => {
    const counter: Container = { ...script("wc -c"), stdin: true, stdinOnce: true };
    await world.createPod("once", [counter], { restartPolicy: "Never" });
    await world.untilReady("once");
    const session = await open(
      "/api/v1/namespaces/default/pods/once/attach?container=main&stdin=true&stdout=true",
    );
    session.send(0, "12345");
    session.send(255, "\u0000");
    await session.received(1, "5\n");
    await world.until("once", (it) => it?.status?.phase === "Succeeded");
    await world.deletePod("once");
  });

  describe("logs", () => {
    it("are returned whole, or by their last lines, or up to a limit of bytes", async () => {
      expect((await get(`${POD}/log?container=main`)).text).toMatch(/^first\nsecond\n/);
      await world.createPod("lines", [script("seq 1 1000")], { restartPolicy: "Never" });
      await world.until("lines", (it) => it?.status?.phase === "Succeeded");
      const of = (query: string) =>
        get(`/api/v1/namespaces/default/pods/lines/log?${query}`).then((it) => it.text);
      expect(await of("tailLines=2")).toBe("999\n1000\n");
      expect(await of("tailLines=0")).toBe("");
      expect(await of("tailLines=5000")).toBe(
        `${Array.from({ length: 1000 }, (_, at) => at + 1).join("\n")}\n`,
      );
      expect(await of("limitBytes=5")).toBe("1\n2\n3");
      expect(await of("sinceSeconds=3600&tailLines=1")).toBe("1000\n");
      expect(await of(`sinceTime=${encodeURIComponent("2999-01-01T00:00:00Z")}`)).toBe("");
      expect(await of("tailLines=1&timestamps=true")).toMatch(
        /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z 1000\n$/,
      );
      await world.deletePod("lines");
    });

    it("have times, also those of a container that ended before the kubelet looked at it", async () => {
      await world.createPod("brief", [script("echo said")], { restartPolicy: "Never" });
      const isOver = (it: Pod | undefined): boolean => it?.status?.phase === "Succeeded";
      const pod = found(await world.until("brief", isOver));
      await world.killNode();
      rmSync(join(world.runFolder(pod, "main"), LOG_TIMES_FILE));
      await world.startNode();
      const at = "/api/v1/namespaces/default/pods/brief/log";
      expect((await get(`${at}?sinceSeconds=3600`)).text).toBe("said\n");
      expect((await get(`${at}?timestamps=true`)).text).toMatch(/^20.*Z said\n$/);
      await world.deletePod("brief");
    });

    it("are followed to the container's end", async () => {
      await world.createPod("followed", [script("echo a; sleep 0.3; echo b; sleep 0.1; exit 1")], {
        restartPolicy: "Never",
      });
      await world.until("followed", (it) => it?.status?.phase === "Running");
      expect((await get("/api/v1/namespaces/default/pods/followed/log?follow=true")).text).toBe("a\nb\n");
      await world.deletePod("followed");
    });

    it("lose their beginning when they grow too long, and keep growing", async () => {
      const text = `i=0; while [ $i -lt 330 ]; do i=$((i + 1)); printf '%065535d\\n' $i; done; echo end; ${IDLE}`;
      await world.createPod("chatty", [script(text)]);
      const pod = await world.untilReady("chatty");
      const log = join(world.runFolder(pod, "main"), "log");
      const held = (): number => statSync(log).blocks * 512;
      const isBounded = (): boolean =>
        statSync(log).size === 330 * 65_536 + 4 && held() <= MAX_LOG_BYTES + 65_536;
      await expect.poll(isBounded, { timeout: 60_000 }).toBe(true);
      const at = "/api/v1/namespaces/default/pods/chatty/log?container=main";
      const { text: whole } = await get(at);
      expect(whole.length).toBeLessThanOrEqual(MAX_LOG_BYTES);
      const lines = whole.trimEnd().split("\n");
      expect(lines.slice(0, -1).every((it) => /^\d{65535}$/.test(it))).toBe(true);
      expect(lines.slice(-2).map(Number)).toEqual([330, Number.NaN]);
      expect((await get(`${at}&tailLines=1`)).text).toBe("end\n");
      await world.deletePod("chatty");
    });

    it("of the previous run are kept, and the lack of one is reported", async () => {
      const path = "/api/v1/namespaces/default/pods/twice/log?previous=true";
      await world.createPod(
        "twice",
        [script("[ -e /shared/again ] && exec sleep 1000; touch /shared/again; echo run one; exit 1")].map(
          (it) => ({ ...it, volumeMounts: [{ name: "shared", mountPath: "/shared" }] }),
        ),
        { volumes: [{ name: "shared", emptyDir: {} }] },
      );
      await world.until(
        "twice",
        (it) =>
          it?.status?.containerStatuses?.[0]?.restartCount === 1 &&
          it.status.containerStatuses[0].state?.running !== undefined,
      );
      expect((await get(path)).text).toBe("run one\n");
      const none = await get(`${POD}/log?container=main&previous=true`);
      expect(none.code).toBe(400);
      expect(none.text).toContain("previous terminated container");
      await world.deletePod("twice");
    });
  });

  it("requires a certificate of the cluster's authority for system:masters", async () => {
    const ask = (credentials: { readonly cert?: string; readonly key?: string }): Promise<number> =>
      new Promise((resolve, reject) => {
        const options = {
          host: world.nodeIP,
          port: 10_250,
          path: "/containerLogs/default/shell/main",
          agent: false,
          rejectUnauthorized: false,
          ...credentials,
        };
        secureRequest(options, (answer) => {
          answer.resume();
          resolve(answer.statusCode ?? 0);
        })
          .once("error", reject)
          .end();
      });
    const pki = await ensureClusterPki(join(world.folder, "api", "pki"));
    const master = { commonName: "kube-apiserver-kubelet-client", organizations: ["system:masters"] };
    expect(await ask(await issueClientCertificate(pki.ca, master))).toBe(200);
    expect(
      await ask(await issueClientCertificate(pki.ca, { commonName: "person", organizations: ["people"] })),
    ).toBe(403);
    const stranger = await issueAuthority({ commonName: "stranger" });
    await expect(ask(await issueClientCertificate(stranger, master))).rejects.toThrow(
      /alert|ECONNRESET|hang up/,
    );
    await expect(ask({})).rejects.toThrow(/alert|ECONNRESET|hang up/);
    expect(readFileSync(join(world.folder, "node.log"), "utf8")).not.toContain('"level":"error"');
  });
});
