/**
 * Set up for tests of random inputs: these are the same in each run, so that a run fails because of what was changed and
 * not by chance. scripts/another-day.ts tries new ones (`TEST_CHANCE=new`); a failure prints its seed.
 */
import { configureGlobal } from "fast-check";

if (process.env["TEST_CHANCE"] !== "new") configureGlobal({ seed: 20_260_101 });
