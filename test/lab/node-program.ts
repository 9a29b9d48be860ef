/** An executable with the two programs that the tests of a node start: `lab-node` and `lab-echo`. */
const [name, ...args] = process.argv.slice(2);
const { command } =
  name === "lab-echo"
    ? await import("@fairlead/fairlead/lab-echo/main.ts")
    : await import("@fairlead/fairlead/lab-node/main.ts");
await command().parseAsync(args, { from: "user" });
