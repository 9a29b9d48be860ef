/** The processes that host a fleet's members, seen from their parent. */

import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { MemberShape } from "./shape.ts";
import type { Order, Report } from "./worker.ts";

/** V8's own bound would be far less than the machine has. Unit: MiB. */
const HEAP_MIB = 12_288;

export interface Workers extends AsyncDisposable {
  readonly pids: readonly number[];
  /** Tells all of them; resolves with what each reports. */
  all<Kind extends Order["do"]>(
    order: Extract<Order, { do: Kind }>,
  ): Promise<Extract<Report, { done: Kind }>[]>;
  /** Makes a change in one member. @returns when it was asked for. */
  change(order: Extract<Order, { do: "change" | "changePod" }>): Promise<number>;
  onSeen(seen: (of: Extract<Report, { done: "seen" }>) => void): Disposable;
}

/** Hosts `members` in `count` processes and gives them their services. */
export async function startWorkers(members: readonly MemberShape[], count: number): Promise<Workers> {
  const shares = Array.from({ length: count }, (_, at) => members.filter((_member, it) => it % count === at));
  const children = shares.map(() =>
    fork(fileURLToPath(new URL("worker.ts", import.meta.url)), {
      execArgv: ["--expose-gc", `--max-old-space-size=${HEAP_MIB}`],
    }),
  );
  const workers: Workers = {
    pids: children.map((it) => it.pid ?? 0),
    all: <Kind extends Order["do"]>(order: Extract<Order, { do: Kind }>) =>
      Promise.all(children.map((child) => ask<Kind>(child, order))),
    async change(order) {
      const child = children.find((_, at) => shares[at]?.some((it) => it.name === order.member) === true);
      if (child === undefined) throw new Error(`no worker hosts ${order.member}`);
      return (await ask(child, order)).atMs;
    },
    onSeen(seen) {
      const onMessage = (it: Report): void => {
        if (it.done === "seen") seen(it);
      };
      for (const child of children) child.on("message", onMessage);
      return {
        [Symbol.dispose]() {
          for (const child of children) child.off("message", onMessage);
        },
      };
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(children.filter((it) => it.connected).map((it) => ask(it, { do: "stop" })));
    },
  };
  await Promise.all(children.map((child, at) => ask(child, { do: "populate", members: shares[at] ?? [] })));
  return workers;
}

/** One order at a time of each kind: reports carry no number. */
function ask<Kind extends Order["do"]>(
  child: ChildProcess,
  order: Extract<Order, { do: Kind }>,
): Promise<Extract<Report, { done: Kind }>> {
  return new Promise((resolve, reject) => {
    const onExit = (): void => reject(new Error(`a process of members ended before it did "${order.do}"`));
    const onMessage = (it: Report): void => {
      if (it.done !== order.do) return;
      child.off("message", onMessage);
      child.off("exit", onExit);
      resolve(it as Extract<Report, { done: Kind }>);
    };
    child.on("message", onMessage);
    child.on("exit", onExit);
    child.send(order);
  });
}
