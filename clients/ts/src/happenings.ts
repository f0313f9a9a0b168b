// The events of all sessions of an agent: server-sent events of the gateway.

import { InternalError } from "./errors.js";
import { Feed } from "./feed.js";
import type { Call, CallOptions, Query, Transport } from "./http.js";

/** What happened to a session; docs/reference/http.md has all of it. */
export interface SessionEvent {
  /** Its number. */
  seq: number;
  /** Such as exec.finished; corral.missed says that some events before seq are no longer kept. */
  type: string;
  sessionId?: string;
  agent?: string;
  /** All of it, for a model. */
  text?: string;
  [more: string]: unknown;
}

export interface EventsOptions extends CallOptions {
  /** The number of the last event that was seen; 0: all that is kept. Without it, from now on. */
  after?: number;
  allAgents?: boolean;
  /** Only the events that there are. */
  once?: boolean;
}

/** Iterates over what happens to the sessions. What happens to approvals is read likewise. */
export class SessionEvents<Item = SessionEvent> extends Feed<Item> {
  /** The number of the last event. */
  after: number | undefined;

  protected override readonly most = 16 << 20;
  protected override readonly whole: boolean;
  readonly #query: Query;
  // What is known of an event before its end, which is an empty line.
  #kind = "";
  #data = "";
  #id: number | undefined;

  readonly #path: string[];

  constructor(transport: Transport, options: EventsOptions & { agent?: string } = {}, path = ["events"]) {
    super(transport, options);
    this.after = options.after;
    this.whole = options.once === true;
    this.#query = { agent: options.allAgents ? "*" : options.agent, once: options.once };
    this.#path = path;
  }

  protected call(): Call {
    this.#forget();
    return { method: "GET", path: this.#path, query: { ...this.#query, after: this.after }, accept: "text/event-stream" };
  }

  #forget(): void {
    this.#kind = "";
    this.#data = "";
    this.#id = this.after;
  }

  protected understand(line: Uint8Array): { item?: Item } {
    try {
      const [, name, value] = /^([^:]*):? ?(.*?)\r?$/s.exec(new TextDecoder().decode(line)) as unknown as [string, string, string];
      if (name === "id") {
        this.#id = number(value);
      } else if (name === "event") {
        this.#kind = value;
      } else if (name === "data") {
        this.#data += value + "\n";
        if (this.#data.length > this.most) {
          throw new RangeError(`more than ${this.most} bytes`);
        }
      } else if (/^\r?$/.test(name)) {
        return this.#end();
      }
      return {};
    } catch (e) {
      throw new InternalError("an event that is not understood", { cause: e });
    }
  }

  #end(): { item?: Item } {
    let item = this.#data === "" ? undefined : (JSON.parse(this.#data) as Item & { next?: unknown });
    if (item !== undefined && this.#kind === "corral.missed") {
      this.#id = number(item.next);
      item = { type: this.#kind, seq: this.#id } as unknown as Item & { next?: unknown };
    }
    this.after = this.#id;
    this.#forget();
    return item === undefined ? {} : { item };
  }
}

function number(value: unknown): number {
  const n = Number(value);
  if (!Number.isSafeInteger(n) || n < 0) {
    throw new TypeError(`${JSON.stringify(value)} is no number of an event`);
  }
  return n;
}
