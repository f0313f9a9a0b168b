// A session: a command that outlives the call that started it.

import { CorralError, EndedError, LostError, NotFoundError, StillRunningError, UnavailableError } from "./errors.js";
import { EVENTS_TYPE, type ExitEvent, Stream } from "./events.js";
import { type Call, type CallOptions, NoAnswer, Patience, type Transport, parseJSON } from "./http.js";
import { join } from "./lines.js";

const WAIT_STEP = 120; // seconds of one request that waits; Node's fetch waits 300 for an answer
const MAX_OUTPUT = 16 << 20;

/** A session as the gateway describes it; docs/reference/http.md has all of it. */
export interface Status {
  sessionId: string;
  agent: string;
  status: "running" | "completed" | "failed" | "unknown";
  reason?: string;
  command: string;
  cwd: string;
  pid: number;
  host?: string;
  node?: string;
  sandboxed: boolean;
  startedAt: string;
  endedAt?: string;
  exit?: { exitCode: number | null; signal: number | null; signalName: string | null; reason: string };
  outputBytes: number;
  omittedBytes?: number;
  [more: string]: unknown;
}

/** How a command ended, and its output. */
export class Result {
  /** The status of the session. */
  readonly session: Status;
  /** null: a signal ended it, or it is not known how it ended. */
  readonly exitCode: number | null;
  readonly signal: number | null;
  readonly signalName: string | null;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  /** Both, in the order in which they came. */
  readonly output: Uint8Array;
  /** How many bytes are not in output. */
  readonly omitted: number;

  constructor(exit: ExitEvent, stdout: Uint8Array, stderr: Uint8Array, output: Uint8Array, omitted: number) {
    this.session = exit.session;
    this.exitCode = exit.exitCode;
    this.signal = exit.signal;
    this.signalName = exit.signalName;
    this.stdout = stdout;
    this.stderr = stderr;
    this.output = output;
    this.omitted = omitted;
  }

  get ok(): boolean {
    return this.exitCode === 0;
  }

  /** output, with U+FFFD for what is not UTF-8. A character that was cut off at the end is left out. */
  get text(): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.output, { stream: this.omitted > 0 });
  }
}

export interface LogOptions extends CallOptions {
  /** Where in the log to begin; by default 0. */
  offset?: number;
  /** false: only what there is now. */
  follow?: boolean;
  /** At most so many bytes. */
  limit?: number;
}

export interface ResultOptions extends CallOptions {
  /** How many bytes of output to keep; by default 16 MiB. */
  maxOutput?: number;
}

export interface WaitOptions extends CallOptions {
  /** Seconds. Without it, wait has no end. */
  timeout?: number;
}

/** A session of the gateway. Its methods throw NotFoundError when it was removed. */
export class Session {
  readonly id: string;
  /** Its status when it was last asked for. */
  info: Status;
  readonly #transport: Transport;

  constructor(transport: Transport, info: Status) {
    this.#transport = transport;
    this.info = info;
    this.id = info.sessionId;
  }

  /** The session now. */
  async status(options: CallOptions = {}): Promise<Status> {
    this.info = await this.#json<Status>("GET", [], options);
    return this.info;
  }

  /** The output from an offset as events: to the end of the session, or without follow what there is now. */
  log(options: LogOptions = {}): Stream {
    const { offset = 0, follow = true, limit } = options;
    const then = (status: Status, at: number, left?: number): Call => logCall(status, at, left, follow);
    return new Stream(this.#transport, { first: then(this.info, offset, limit), then, session: this.info, offset, follow, limit }, options);
  }

  /** Waits for the end, and returns the status. StillRunningError if the time is up before. */
  async wait(options: WaitOptions = {}): Promise<Status> {
    const { timeout = Infinity, signal } = options;
    const until = Date.now() / 1000 + timeout;
    for (;;) {
      const step = Math.max(0, Math.min(WAIT_STEP, until - Date.now() / 1000));
      this.info = await this.#json<Status>("GET", ["wait"], { signal, query: { timeout: step.toFixed(3) }, timeout: step + 60 });
      if (this.info.status !== "running") {
        return this.info;
      }
      if (Date.now() / 1000 >= until) {
        throw new StillRunningError(`session ${this.id} still runs after ${timeout} seconds`);
      }
    }
  }

  /** Waits for the end, and returns it with the output from the beginning. */
  result(options: ResultOptions = {}): Promise<Result> {
    return collect(this.log({ signal: options.signal }), options.maxOutput);
  }

  /** Ends the session: SIGTERM, and SIGKILL after a grace. */
  async kill(options: CallOptions = {}): Promise<Status> {
    try {
      this.info = await this.#json<Status>("POST", ["kill"], options);
    } catch (e) {
      if (!(e instanceof EndedError) || !e.repeated) {
        throw e;
      }
      return this.status(options); // it was ended by a try whose answer was cut
    }
    return this.info;
  }

  /** Sends a signal, such as "INT", to the whole process tree. */
  async signal(name: string | number, options: CallOptions = {}): Promise<void> {
    await this.#json("POST", ["signal"], { ...pick(options), json: { signal: String(name) }, once: true });
  }

  /** Sets the size of the terminal. */
  async resize(rows: number, cols: number, options: CallOptions = {}): Promise<void> {
    await this.#json("POST", ["resize"], { ...pick(options), json: { rows, cols } });
  }

  /**
   * Writes to standard input. The property written of an error is how many bytes the
   * command took; LostError: that is not known, nor is it after an abort.
   */
  async write(data: Uint8Array | string, options: CallOptions = {}): Promise<void> {
    await this.#write(typeof data === "string" ? new TextEncoder().encode(data) : data, false, options);
  }

  /** Ends standard input. */
  async closeStdin(options: CallOptions = {}): Promise<void> {
    await this.#write(new Uint8Array(), true, options);
  }

  /** Forgets an ended session, with its output. force: kills it first if it runs. */
  async remove(options: CallOptions & { force?: boolean } = {}): Promise<void> {
    try {
      await this.#json("DELETE", [], { ...pick(options), query: { force: options.force } });
    } catch (e) {
      if (!(e instanceof NotFoundError)) {
        throw e; // else removed before, perhaps by a try whose answer was cut
      }
    }
  }

  #json<T>(method: string, path: string[], more: Parameters<Transport["json"]>[2]): Promise<T> {
    return this.#transport.json<T>(method, ["sessions", this.id, ...path], { headers: life(this.info), ...more });
  }

  async #write(data: Uint8Array, eof: boolean, options: CallOptions): Promise<void> {
    const patience = new Patience(this.#transport.retry, options.signal);
    for (let done = 0; ; ) {
      const call: Call = {
        method: "POST",
        path: ["sessions", this.id, "stdin"],
        query: { eof },
        body: data.subarray(done),
        type: "application/octet-stream",
        headers: life(this.info),
        signal: options.signal,
      };
      try {
        const taken = await this.#taken(call);
        if (taken !== data.length - done) {
          throw new LostError(`the gateway took ${taken} bytes of ${data.length - done}`, { written: taken });
        }
        return;
      } catch (e) {
        if (e instanceof CorralError) {
          e.written += done;
        }
        if (!(e instanceof NoAnswer)) {
          throw e;
        }
        if (e.reason instanceof CorralError) {
          done += e.reason.written;
        } else if (e.sent && !eof) {
          throw this.#transport.lost(call, e);
        }
        if (!(e.away || this.#transport.reached) || !(await patience.wait())) {
          const error = this.#transport.unreachable(e) as CorralError;
          error.written = done;
          throw error;
        }
      }
    }
  }

  async #taken(call: Call): Promise<number> {
    const answer = await this.#transport.open(call);
    try {
      return Number((parseJSON(await answer.read()) as { written?: unknown } | undefined)?.written);
    } catch (e) {
      throw e instanceof NoAnswer ? new NoAnswer(e.reason, true) : e;
    } finally {
      answer.close();
    }
  }
}

export function logCall(status: Status, offset: number, limit?: number, follow = true): Call {
  return { method: "GET", path: ["sessions", status.sessionId, "log"], query: { offset, follow, limit }, accept: EVENTS_TYPE, headers: life(status) };
}

/** Says which session is meant: another may have the ID by now. */
function life(status: Status): Record<string, string> {
  return status.startedAt ? { "Corral-Started": status.startedAt } : {};
}

/** What of the options is for the call itself. */
export function pick(options: CallOptions): CallOptions {
  return { signal: options.signal };
}

/** Reads a stream to its end. */
export async function collect(stream: Stream, maxOutput = MAX_OUTPUT): Promise<Result> {
  const stdout: Uint8Array[] = [];
  const stderr: Uint8Array[] = [];
  const output: Uint8Array[] = [];
  let length = 0;
  let omitted = 0;
  for await (const event of stream) {
    switch (event.type) {
      case "exit":
        return new Result(event, joinAll(stdout), joinAll(stderr), joinAll(output), omitted);
      case "gap":
        omitted += event.next - event.offset;
        break;
      case "stdout":
      case "stderr": {
        const kept = event.data.subarray(0, Math.max(0, maxOutput - length));
        omitted += event.data.length - kept.length;
        length += kept.length;
        output.push(kept);
        (event.type === "stdout" ? stdout : stderr).push(kept);
      }
    }
  }
  throw new UnavailableError("the output ended before the command");
}

function joinAll(parts: Uint8Array[]): Uint8Array {
  return join(parts, parts.reduce((sum, part) => sum + part.length, 0));
}

/** Writes all of the input. That a command ends without reading it is no error. */
export async function feed(session: Session, input: Uint8Array | string, options: CallOptions): Promise<void> {
  try {
    await session.write(input, options);
    await session.closeStdin(options);
  } catch (e) {
    if (!(e instanceof EndedError)) {
      throw e;
    }
  }
}
