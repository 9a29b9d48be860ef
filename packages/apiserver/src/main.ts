/** The API server by itself: `node packages/apiserver --help`. */
import { command } from "#program/main.ts";

await command().parseAsync();
