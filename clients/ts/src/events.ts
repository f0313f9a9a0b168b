// The output of a session as events.

import { InternalError } from "./errors.js";
import { Feed } from "./feed.js";
import type { Call, CallOptions, Transport } from "./http.js";
import type { Status } from "./session.js";

export const EVENTS_TYPE = "application/x-ndjson";

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
  then: (session: Status, offset: number, limit?: number) => Call;
  session?: Status;
  offset?: number;
  follow?: boolean;
  limit?: number | undefined;
}

/** Iterates over the events of a session. */
export class Stream extends Feed<Event> {
  /** Known after the first event. */
  session: Status | undefined;
  /** Where the rest begins. */
  offset: number;

  readonly #calls: StreamCalls;
  readonly #text = new Text();
  #left: number | undefined; // bytes of the limit

  constructor(transport: Transport, calls: StreamCalls, options: CallOptions = {}) {
    super(transport, options);
    this.#calls = calls;
    this.session = calls.session;
    this.offset = calls.offset ?? 0;
    this.#left = calls.limit || undefined;
  }

  protected call(): Call | undefined {
    if (this.#left === 0) {
      return undefined;
    }
    return this.session === undefined ? this.#calls.first : this.#calls.then(this.session, this.offset, this.#left);
  }

  protected override bears(): boolean {
    return this.session !== undefined; // the command was started: what it runs on may come back
  }

  protected understand(line: Uint8Array): { item?: Event; then?: "end" | "again" } {
    const event = parseLine(line);
    if (event.type === "ping") {
      return {};
    }
    if (event.offset !== this.offset) {
      throw new InternalError(`an event from ${event.offset}, and it was to be from ${this.offset}`);
    }
    this.offset = event.next;
    this.session = event.session ?? this.session;
    if (this.#left !== undefined) {
      this.#left = Math.max(0, this.#left - event.data.length);
    }
    const item = { ...event, text: decode(this.#text, event) } as Event;
    switch (item.type) {
      case "exit":
        return { item, then: "end" };
      case "pause":
        return { item, then: this.#calls.follow === false || this.#left === 0 ? "end" : "again" };
      default:
        return { item };
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
