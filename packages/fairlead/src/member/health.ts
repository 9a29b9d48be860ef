import { compileExpression } from "@fairlead/apiserver/cel/environment.ts";
import { toCel } from "@fairlead/apiserver/cel/json.ts";
import { BOOL, DYN } from "@fairlead/apiserver/cel/type.ts";

const VARIABLES = new Map([["object", DYN]]);

/** Health rules as CEL, with the bound on cost that Kubernetes has for one expression. */
export function compileHealth(expression: string): (object: object) => boolean {
  const program = compileExpression(expression, { variables: VARIABLES, returns: [BOOL, DYN] });
  return (object) => {
    const { value } = program.evaluate(new Map([["object", toCel(object)]]));
    if (typeof value !== "boolean") throw new Error("its value is not true or false");
    return value;
  };
}
