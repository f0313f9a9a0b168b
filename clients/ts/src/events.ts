// The output of a session as events, read on where a connection was cut.

import { InternalError, UnavailableError } from "./errors.js";
import { type Answer, type Call, type CallOptions, NoAnswer, Patience, type Transport } from "./http.js";
import { LineParser } from "./lines.js";
import type { Status } from "./session.js";

export const EVENTS_TYPE = "application/x-ndjson";

const QUIET = 60; // seconds; the gateway says something every 15
const MAX_LINE = 4 << 20;

interface EventBase {
  /** Where in the log it begins. */
  offset: number;
  /** Where the rest begins. */
  next: number;
  /** Output, of stdout and stderr. */
  data: Uint8Array;
  /**
   * The output as text, with U+FFFD for what is not UTF-8. A character of which data has
   * only the beginning is in the text of the next event of the same stream.
   */
  text: string;
}

/** The command was started. */
export interface StartedEvent extends EventBase {
  type: "started";
  session: Status;
}

export interface OutputEvent extends EventBase {
  type: "stdout" | "stderr";
}

/** The output from offset to next is not kept any more. */
export interface GapEvent extends EventBase {
  type: "gap";
}

/** All that was asked for is here, and the session runs on. */
export interface PauseEvent extends EventBase {
  type: "pause";
}

/** The session has ended. */
export interface ExitEvent extends EventBase {
  type: "exit";
  /** null: a signal ended it, or it is not known how it ended. */
  exitCode: number | null;
  signal: number | null;
  signalName: string | null;
  session: Status;
}

export type Event = StartedEvent | OutputEvent | GapEvent | PauseEvent | ExitEvent;

/** An event as it is in a line, before its text is decoded. */
type Line = Omit<EventBase, "text"> & {
  type: string;
  exitCode?: number | null;
  signal?: number | null;
  signalName?: string | null;
  session?: Status;
};

export function parseLine(line: Uint8Array): Line {
  let text = "";
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(line);
    const { text: output, binary, ...event } = JSON.parse(text) as Line & { text?: string; binary?: string };
    const { type, offset, next } = event;
    if (typeof type !== "string" || !Number.isSafeInteger(offset) || !Number.isSafeInteger(next) || offset < 0 || next < offset) {
      throw new TypeError("an event without a type, or one that ends before it begins");
    }
    const data = output !== undefined ? new TextEncoder().encode(output) : Uint8Array.from(atob(binary ?? ""), (c) => c.charCodeAt(0));
    if ((type === "stdout" || type === "stderr") && data.length !== next - offset) {
      throw new TypeError(`output of ${data.length} bytes`);
    }
    return { ...event, data };
  } catch (e) {
    throw new InternalError(`an event that is not understood: ${text.slice(0, 100)}`, { cause: e });
  }
}

/** Decodes the output of one command: each of its two streams by itself. */
class Text {
  #decoders = new Map<string, TextDecoder>();

  add(type: string, data: Uint8Array): string {
    let decoder = this.#decoders.get(type);
    if (decoder === undefined) {
      decoder = new TextDecoder("utf-8", { ignoreBOM: true });
      this.#decoders.set(type, decoder);
    }
    return decoder.decode(data, { stream: true });
  }

  /** What is left of characters whose ends will not come. */
  end(): string {
    const left = [...this.#decoders.values()].map((d) => d.decode()).join("");
    this.#decoders.clear();
    return left;
  }
}

export interface StreamCalls {
  /** Begins the stream. */
  first: Call;
  /** Goes on from an offset, once the session is known. */
  then: (session: Status, offset: number) => Call;
  session?: Status;
  offset?: number;
  follow?: boolean;
}

/**
 * Iterates over the events of a session, over as many connections as it takes. The first
 * request is sent when the first event is asked for.
 */
export class Stream implements AsyncIterableIterator<Event> {
  /** Known after the first event. */
  session: Status | undefined;
  /** Where the rest begins. */
  offset: number;

  readonly #transport: Transport;
  readonly #calls: StreamCalls;
  readonly #caller: AbortSignal | undefined;
  readonly #stop = new AbortController();
  readonly #abort = (): void => this.#stop.abort(this.#caller?.reason);
  readonly #events: AsyncGenerator<Event, void, undefined>;
  #closed = false;

  constructor(transport: Transport, calls: StreamCalls, options: CallOptions = {}) {
    this.#transport = transport;
    this.#calls = calls;
    this.#caller = options.signal;
    this.session = calls.session;
    this.offset = calls.offset ?? 0;
    this.#events = this.#read();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Event, void>> {
    return this.#events.next();
  }

  /** Ends the stream, also for a caller that waits for an event. The command goes on. */
  async return(): Promise<IteratorResult<Event, void>> {
    this.#closed = true;
    this.#stop.abort();
    return this.#events.return();
  }

  /** The same as return. */
  async close(): Promise<void> {
    await this.return();
  }

  async *#read(): AsyncGenerator<Event, void, undefined> {
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

  async *#connections(): AsyncGenerator<Event, void, undefined> {
    const signal = this.#stop.signal;
    const patience = new Patience(this.#transport.retry, signal);
    const text = new Text();
    for (let call = this.#calls.first; ; ) {
      let error: NoAnswer;
      let answer: Answer | undefined;
      try {
        answer = await this.#transport.open({ ...call, signal, timeout: QUIET });
        for await (const event of this.#received(answer, text)) {
          patience.succeeded();
          if (event.type === "pause" && this.#calls.follow !== false) {
            break;
          }
          yield event;
          if (event.type === "exit" || event.type === "pause") {
            return;
          }
        }
        error = new NoAnswer(new Error("the output was cut"), true);
      } catch (e) {
        if (e instanceof UnavailableError && this.session !== undefined) {
          error = new NoAnswer(e, false, true); // the command was started: what it runs on may come back
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
      if (this.session !== undefined) {
        call = this.#calls.then(this.session, this.offset);
      }
    }
  }

  /** The events of one answer. It just ends if the answer was cut. */
  async *#received(answer: Answer, text: Text): AsyncGenerator<Event, void, undefined> {
    const lines = new LineParser(MAX_LINE);
    for (;;) {
      let piece: Uint8Array | undefined;
      try {
        piece = await answer.some();
      } catch (e) {
        if (e instanceof NoAnswer) {
          return;
        }
        throw e;
      }
      if (piece === undefined) {
        return;
      }
      for (const line of lines.push(piece)) {
        const event = parseLine(line);
        if (event.type === "ping") {
          continue;
        }
        if (event.offset !== this.offset) {
          throw new InternalError(`an event from ${event.offset}, and it was to be from ${this.offset}`);
        }
        this.offset = event.next;
        this.session = event.session ?? this.session;
        yield { ...event, text: decode(text, event) } as Event;
      }
    }
  }
}

function decode(text: Text, event: Line): string {
  switch (event.type) {
    case "stdout":
    case "stderr":
      return text.add(event.type, event.data);
    case "gap":
    case "exit":
      return text.end();
    default:
      return "";
  }
}
