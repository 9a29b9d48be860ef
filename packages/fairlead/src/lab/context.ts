import { defined } from "@fairlead/base/defined.ts";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { systemClock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import type { Lab } from "@fairlead/lab/faults.ts";
import { labLayout } from "@fairlead/lab/layout.ts";
import { requireState } from "@fairlead/lab/state.ts";
import { checkLabName } from "@fairlead/lab/topology.ts";
import type { LabContext } from "@fairlead/lab/up.ts";
import { searchPath } from "@fairlead/base/program/kubectl.ts";
import { ownCommand, ownEntry } from "@fairlead/base/program/self.ts";
import { fleetInstall } from "./install.ts";

/** The environment of the lab commands. */

/** Labs of root live in memory where the system keeps such things; those of others in their own run-time folder. */
export function stateRoot(): string {
  const chosen = process.env["FAIRLEAD_STATE"];
  if (chosen !== undefined && chosen !== "") return chosen;
  const uid = process.getuid?.() ?? 0;
  if (uid === 0 && process.env["FAIRLEAD_USERNS"] === undefined) return "/run/fairlead";
  const runtime = process.env["XDG_RUNTIME_DIR"];
  return runtime === undefined || runtime === ""
    ? `/tmp/fairlead-${process.env["FAIRLEAD_USERNS"] ?? uid}`
    : join(runtime, "fairlead");
}

export function labContext(root = stateRoot()): LabContext {
  const entry = ownEntry();
  // Made with the bundle of a checkout; elsewhere there is none.
  const cache = entry === undefined ? "" : join(dirname(entry), "compile-cache");
  return {
    stateRoot: root,
    clock: systemClock,
    log: silentLogger,
    fleet: fleetInstall,
    launcher: {
      command: ownCommand(["--disable-warning=ExperimentalWarning"]),
      env: {
        PATH: searchPath(),
        HOME: homedir(),
        LANG: "C.UTF-8",
        ...defined({ FAIRLEAD_ENTRY: entry }),
        ...(existsSync(cache) ? { NODE_COMPILE_CACHE: cache } : {}),
      },
    },
  };
}

/** A lab that is there. @throws `LAB_NOT_FOUND` */
export function openLab(name: string, root = stateRoot()): Lab {
  checkLabName(name);
  const context = labContext(root);
  const layout = labLayout(context.stateRoot, name);
  return { context, layout, state: requireState(layout, name) };
}

/** Aborts on Ctrl-C, so that a command rolls back or leaves a state that can be repaired. */
export function untilInterrupted(): AbortSignal {
  const stop = new AbortController();
  const onSignal = (): void => {
    if (stop.signal.aborted) process.exit(130);
    process.exitCode = 130;
    stop.abort(new FleetError("ABORTED", "interrupted"));
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return stop.signal;
}
