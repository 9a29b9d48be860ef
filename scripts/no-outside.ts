/**
 * Set up for unit tests: they open no sockets and start no programs, so that they are quick and meet nothing of the
 * machine. What needs either is an integration test.
 */
import childProcess, { ChildProcess } from "node:child_process";
import dgram from "node:dgram";
import { syncBuiltinESMExports } from "node:module";
import net from "node:net";

const refuse = (what: string) => (): never => {
  throw new Error(`a unit test cannot ${what}: name its file *.integration.test.ts`);
};

Object.assign(net.Server.prototype, { listen: refuse("listen on a socket") });
Object.assign(net.Socket.prototype, { connect: refuse("open a connection") });
Object.assign(dgram.Socket.prototype, { bind: refuse("bind a socket"), send: refuse("send a packet") });
Object.assign(ChildProcess.prototype, { spawn: refuse("start a program") });
const run = refuse("run a program");
Object.assign(childProcess, { spawnSync: run, execFileSync: run, execSync: run });
syncBuiltinESMExports();
