/**
 * Counts failures in a row, so that a gate that does not answer costs nothing; open, it lets one try through per
 * cool-down. Instants are milliseconds of a monotonic clock.
 */
export class Breaker {
  #failures = 0;
  #retryAtMs = 0;

  constructor(
    private readonly failuresMax: number,
    private readonly cooldownMs: number,
  ) {}

  /** Whether callers go on without the gate. */
  get isOpen(): boolean {
    return this.failuresMax > 0 && this.#failures >= this.failuresMax;
  }

  /** Whether this caller may ask; open, the first one after the cool-down tries for all. */
  allows(nowMs: number): boolean {
    if (!this.isOpen) return true;
    if (nowMs < this.#retryAtMs) return false;
    this.#retryAtMs = nowMs + this.cooldownMs;
    return true;
  }

  /** The gate answered. */
  succeeded(): void {
    this.#failures = 0;
  }

  /** The gate did not answer. */
  failed(nowMs: number): void {
    this.#failures = Math.min(this.#failures + 1, Math.max(this.failuresMax, 0));
    if (this.isOpen) this.#retryAtMs = nowMs + this.cooldownMs;
  }
}
