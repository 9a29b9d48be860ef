/** Set up for tests: the compile cache is for this process, and not for programs that it starts, which have their own. */
delete process.env["NODE_COMPILE_CACHE"];
