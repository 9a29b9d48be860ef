import { command } from "@fairlead/fairlead/relay/main.ts";

/** `fairlead relay` alone, which starts sooner than the whole executable. */
await command().parseAsync(process.argv.slice(2), { from: "user" });
