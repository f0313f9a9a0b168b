// Reads on where a connection was cut: what streams of output and of events share.

import { UnavailableError } from "./errors.js";
import { type Answer, type Call, type CallOptions, NoAnswer, Patience, type Transport } from "./http.js";
import { LineParser } from "./lines.js";

const QUIET = 60; // seconds; the gateway says something every 15

/**
 * Iterates over what the lines of an answer say, over as many connections as it takes. The
 * first request is sent when the first item is asked for.
 */
export abstract class Feed<E> implements AsyncIterableIterator<E> {
  readonly #transport: Transport;
  readonly #caller: AbortSignal | undefined;
  readonly #stop = new AbortController();
  readonly #abort = (): void => this.#stop.abort(this.#caller?.reason);
  readonly #items: AsyncGenerator<E, void, undefined>;
  #closed = false;

  /** Bytes of a line. */
  protected readonly most: number = 4 << 20;
  /** The end of an answer is the end of all. */
  protected readonly whole: boolean = false;

  constructor(transport: Transport, options: CallOptions) {
    this.#transport = transport;
    this.#caller = options.signal;
    this.#items = this.#read();
  }

  /** What goes on from here, if anything does. */
  protected abstract call(): Call | undefined;

  /** What a line says, if anything; then: whether there is more in this answer, or in another. */
  protected abstract understand(line: Uint8Array): { item?: E; then?: "end" | "again" };

  /** Whether the call is to be repeated after that answer. */
  protected bears(_: UnavailableError): boolean {
    return true;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<E, void>> {
    return this.#items.next();
  }

  /** Ends it, also for a caller that waits for an item. A command goes on. */
  async return(): Promise<IteratorResult<E, void>> {
    this.#closed = true;
    this.#stop.abort();
    return this.#items.return();
  }

  /** The same as return. */
  async close(): Promise<void> {
    await this.return();
  }

  async *#read(): AsyncGenerator<E, void, undefined> {
    try {
      if (this.#caller?.aborted) {
        this.#abort();
      }
      this.#caller?.addEventListener("abort", this.#abort);
      yield* this.#connections();
    } catch (e) {
      if (!this.#closed) {
        throw e;
      }
    } finally {
      this.#caller?.removeEventListener("abort", this.#abort);
    }
  }

  async *#connections(): AsyncGenerator<E, void, undefined> {
    const signal = this.#stop.signal;
    const patience = new Patience(this.#transport.retry, signal);
    for (;;) {
      let error: NoAnswer;
      let answer: Answer | undefined;
      try {
        const call = this.call();
        if (call === undefined) {
          return;
        }
        answer = await this.#transport.open({ ...call, signal, timeout: QUIET });
        if (yield* this.#received(answer, patience)) {
          return;
        }
        error = new NoAnswer(new Error("the output was cut"), true);
      } catch (e) {
        if (e instanceof UnavailableError && this.bears(e)) {
          error = new NoAnswer(e, false, true);
        } else if (!(e instanceof NoAnswer)) {
          throw e;
        } else if (!e.away && !this.#transport.reached) {
          throw this.#transport.unreachable(e);
        } else {
          error = e;
        }
      } finally {
        answer?.close();
      }
      if (!(await patience.wait())) {
        throw this.#transport.unreachable(error);
      }
    }
  }

  /** The items of one answer. True: nothing comes after them. */
  async *#received(answer: Answer, patience: Patience): AsyncGenerator<E, boolean, undefined> {
    const lines = new LineParser(this.most);
    for (;;) {
      let piece: Uint8Array | undefined;
      try {
        piece = await answer.some();
      } catch (e) {
        if (e instanceof NoAnswer) {
          return false;
        }
        throw e;
      }
      if (piece === undefined) {
        return this.whole;
      }
      for (const line of lines.push(piece)) {
        const { item, then } = this.understand(line);
        patience.succeeded(); // a ping is one, too: the command may be quiet for long
        if (item !== undefined && then !== "again") {
          yield item;
        }
        if (then !== undefined) {
          return then === "end";
        }
      }
    }
  }
}
