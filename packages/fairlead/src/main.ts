import { runAsCalled } from "./called.ts";

process.exitCode = await runAsCalled();
