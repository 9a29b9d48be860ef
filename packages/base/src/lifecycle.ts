/** A part of a program that runs from `start` until it is disposed. */
export interface Component extends AsyncDisposable {
  /** Resolves when the part is up. Aborting `signal` ends the start, and later the run. */
  start(signal: AbortSignal): Promise<void>;
}

/**
 * Starts `components` in order and returns a disposable that stops them in reverse. If one cannot start, those before it
 * are stopped and the error is thrown.
 */
export async function startAll(
  components: readonly Component[],
  signal: AbortSignal,
): Promise<AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  for (const component of components) {
    stack.use(component);
    await component.start(signal);
  }
  return stack.move();
}
