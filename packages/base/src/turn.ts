/** Calls `callback` once, after the input that is ready now was handled: what happens in one turn can be gathered. */
export function afterThisTurn(callback: () => void): void {
  setImmediate(callback);
}

/** Resolves after the input that is ready now was handled. */
export function nextTurn(): Promise<void> {
  return new Promise(afterThisTurn);
}
