/** An executable with the programs that the tests of a node start. */
const [name, ...args] = process.argv.slice(2);
const { command } =
  name === "lab-echo"
    ? await import("@fairlead/fairlead/lab-echo/main.ts")
    : name === "lab-agnhost"
      ? await import("@fairlead/fairlead/lab-agnhost/main.ts")
      : await import("@fairlead/fairlead/lab-node/main.ts");
await command().parseAsync(args, { from: "user" });
