// Requests to a gateway, repeated where that is safe.

import { CorralError, InvalidError, LostError, TooLargeError, UnavailableError, fromAnswer } from "./errors.js";
import { join } from "./lines.js";

const MAX_ANSWER = 64 << 20;
const MAX_ERROR = 4 << 20;
const MAX_TIMER = 2 ** 31 - 1; // milliseconds; a longer one would be over at once

/** Options of every call. */
export interface CallOptions {
  /** Ends the call, which then fails with the signal's reason. A command that it started goes on. */
  signal?: AbortSignal | undefined;
}

export type Query = Record<string, string | number | boolean | undefined>;

export interface Call extends CallOptions {
  method: string;
  path: readonly string[];
  query?: Query;
  body?: Uint8Array;
  type?: string;
  accept?: string;
  headers?: Record<string, string>;
  /** Sending it again might do something again. */
  once?: boolean;
  /** What follows path and is not the gateway's. */
  rest?: string;
  /** Seconds of silence after which the connection counts as cut. */
  timeout?: number;
}

/** A try that came to nothing. */
export class NoAnswer extends Error {
  /**
   * @param sent the gateway may have acted on it
   * @param away the gateway said that it stops, and did not act on it
   */
  constructor(readonly reason: unknown, readonly sent: boolean, readonly away = false) {
    super(describe(reason));
  }
}

/** An answer that is being read. */
export class Answer {
  readonly headers: Headers;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  readonly #connection: Connection;

  constructor(response: Response, connection: Connection) {
    this.headers = response.headers;
    this.#reader = response.body?.getReader() as ReadableStreamDefaultReader<Uint8Array> | undefined;
    this.#connection = connection;
  }

  /** What is there, or undefined at the end. NoAnswer if the answer was cut. */
  async some(): Promise<Uint8Array | undefined> {
    if (this.#reader === undefined) {
      return undefined;
    }
    const reader = this.#reader;
    const { done, value } = await this.#connection.guard(() => reader.read());
    return done ? undefined : value;
  }

  async read(max = MAX_ANSWER): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    let length = 0;
    for (let part = await this.some(); part !== undefined; part = await this.some()) {
      length += part.length;
      if (length > max) {
        throw new TooLargeError(`the answer has more than ${max} bytes`, { hint: "ask for less at a time" });
      }
      parts.push(part);
    }
    return join(parts, length);
  }

  close(): void {
    this.#connection.close();
  }
}

/** What can end one request: the caller, silence, or that nobody reads the answer. */
class Connection {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #quiet: number;
  readonly #abort = (): void => this.#controller.abort();
  #silent = false;

  constructor(caller: AbortSignal | undefined, quiet: number) {
    this.#caller = caller;
    this.#quiet = quiet;
    caller?.addEventListener("abort", this.#abort);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Does one step, of which the failure is the caller's reason or NoAnswer. */
  async guard<T>(step: () => Promise<T>): Promise<T> {
    this.#caller?.throwIfAborted();
    const timer = setTimeout(() => {
      this.#silent = true;
      this.#controller.abort();
    }, Math.min(this.#quiet * 1000, MAX_TIMER));
    try {
      return await step();
    } catch (e) {
      this.#caller?.throwIfAborted();
      if (e instanceof CorralError) {
        throw e; // of a fetch of the caller's
      }
      const reason = this.#silent ? new Error(`nothing came for ${this.#quiet} seconds`) : e;
      throw new NoAnswer(reason, !wasNotSent(reason));
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    this.#caller?.removeEventListener("abort", this.#abort);
    this.#controller.abort();
  }
}

/** Waits between tries, longer and longer. It runs out when there is no success. */
export class Patience {
  #until: number | undefined;
  #pause = 0.01;

  constructor(readonly retry: number, readonly signal?: AbortSignal) {}

  succeeded(): void {
    this.#until = undefined;
    this.#pause = 0.01;
  }

  /** False: there is to be no further try. */
  async wait(): Promise<boolean> {
    const now = Date.now() / 1000;
    this.#until ??= now + this.retry;
    const pause = this.#pause * (0.5 + Math.random() / 2);
    if (now + pause > this.#until) {
      return false;
    }
    this.#pause = Math.min(this.#pause * 1.5, 1);
    await sleep(pause * 1000, this.signal);
    return true;
  }
}

function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const aborted = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", aborted, { once: true });
  });
}

export interface Place {
  url: string;
  headers: Record<string, string>;
  retry: number;
  timeout: number;
  fetch: typeof fetch;
}

export class Transport {
  readonly retry: number;
  /** Whether the gateway was there since the client was made. */
  reached = false;
  readonly #place: Place;
  readonly #base: string;

  constructor(place: Place) {
    this.#place = place;
    this.retry = place.retry;
    try {
      const url = new URL(place.url);
      if (!/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
        throw new TypeError("not an address of a gateway");
      }
      this.#base = url.href.replace(/\/+$/, "");
    } catch (e) {
      const fields = { hint: "write it like http://127.0.0.1:7777" };
      if (/[@?#]/.test(place.url)) {
        throw new InvalidError('"…" is no address of a gateway', fields); // it may have a secret, which e has, too
      }
      throw new InvalidError(`${JSON.stringify(place.url)} is no address of a gateway`, { ...fields, cause: e });
    }
    try {
      new Headers(place.headers);
    } catch (e) {
      throw new InvalidError("the key, the agent, the session or the sender cannot be in a header", { cause: e });
    }
  }

  /** One try. NoAnswer if there is none. */
  async open(call: Call): Promise<Answer> {
    const connection = new Connection(call.signal, call.timeout ?? this.#place.timeout);
    try {
      const response = await connection.guard(() => this.#fetch(call, connection.signal));
      this.reached = true;
      const answer = new Answer(response, connection);
      if (response.ok) {
        return answer;
      }
      const retryAfter = Number(response.headers.get("Retry-After")) || 0;
      const error = fromAnswer(response.status, await answer.read(MAX_ERROR), retryAfter);
      throw response.status === 503 && retryAfter > 0 ? new NoAnswer(error, false, true) : error;
    } catch (e) {
      connection.close();
      this.reached ||= e instanceof NoAnswer && wasCut(e.reason);
      throw e;
    }
  }

  #fetch(call: Call, signal: AbortSignal | null): Promise<Response> {
    // A connection of its own for each request, where the platform lets us: one that was
    // kept open may be that of a killed gateway, and then it is not known what was sent.
    const headers: Record<string, string> = { Connection: "close", Accept: call.accept ?? "application/json", ...this.#place.headers, ...call.headers };
    const init: RequestInit = { method: call.method, headers, signal, cache: "no-store", credentials: "omit", redirect: "manual" };
    if (call.body !== undefined) {
      headers["Content-Type"] = call.type ?? "application/json";
      init.body = call.body as Uint8Array<ArrayBuffer>;
    }
    const send = this.#place.fetch;
    const url = this.#base + target(call);
    if (call.rest !== undefined && !new URL(url).pathname.startsWith(new URL(this.#base + target({ ...call, rest: "/" })).pathname)) {
      throw new InvalidError(`${JSON.stringify(call.rest)} leads out of the port`); // with ".."
    }
    return send(url, init);
  }

  /** Sends a call until it is answered. */
  async bytes(call: Call): Promise<Uint8Array> {
    const patience = new Patience(this.retry, call.signal);
    for (let sent = false; ; ) {
      try {
        const answer = await this.open(call);
        try {
          return await answer.read();
        } catch (e) {
          throw e instanceof NoAnswer ? new NoAnswer(e.reason, true) : e;
        } finally {
          answer.close();
        }
      } catch (e) {
        if (e instanceof CorralError) {
          e.repeated = sent;
        }
        if (!(e instanceof NoAnswer)) {
          throw e;
        }
        sent ||= e.sent;
        if (sent && call.once) {
          throw this.lost(call, e);
        }
        if (!(e.away || this.reached) || !(await patience.wait())) {
          throw sent && call.method !== "GET" ? this.lost(call, e) : this.unreachable(e);
        }
      }
    }
  }

  /** Sends a call with JSON, and returns the answer's. */
  async json<T>(method: string, path: readonly string[], more: Omit<Call, "method" | "path" | "body"> & { json?: unknown } = {}): Promise<T> {
    const { json, ...rest } = more;
    const call: Call = { method, path, ...rest };
    if (json !== undefined) {
      call.body = new TextEncoder().encode(JSON.stringify(json));
    }
    return parseJSON(await this.bytes(call)) as T;
  }

  /** One try, of which any answer is returned as it is. */
  async pass(call: Call): Promise<Response> {
    call.signal?.throwIfAborted();
    try {
      return await this.#fetch(call, call.signal ?? null);
    } catch (e) {
      call.signal?.throwIfAborted();
      if (e instanceof CorralError) {
        throw e;
      }
      const error = new NoAnswer(e, !wasNotSent(e));
      throw error.sent && call.method !== "GET" ? this.lost(call, error) : this.unreachable(error);
    }
  }

  unreachable(e: NoAnswer): unknown {
    if (e.reason instanceof CorralError) {
      return e.reason;
    }
    return new UnavailableError(`no gateway can be reached at ${this.#base}: ${e.message}`, {
      hint: NO_TLS.test(codeOf(e.reason)) ? "use http://, if it is the gateway: what is there speaks no TLS" : "check the gateway's address, and whether it listens there",
      cause: e.reason,
    });
  }

  lost(call: Call, e: NoAnswer): LostError {
    return new LostError(`the connection to the gateway was cut, and it is not known what became of ${call.method} ${call.path.join("/")}: ${e.message}`, {
      hint: "look before doing it again",
      cause: e.reason,
    });
  }
}

/** The JSON of an answer; undefined of an empty one. */
export function parseJSON(body: Uint8Array): unknown {
  if (body.length === 0) {
    return undefined;
  }
  const text = new TextDecoder().decode(body);
  try {
    return JSON.parse(text);
  } catch (e) {
    throw new InvalidError(`the answer is not JSON: ${text.slice(0, 100)}`, { hint: "check that the address is that of a gateway of corral", cause: e });
  }
}

function target(call: Call): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(call.query ?? {})) {
    if (value !== undefined && value !== false && value !== "") {
      query.set(key, String(value));
    }
  }
  const path = "/v1/" + call.path.map(segment).join("/") + (call.rest ?? "");
  return `${query}` === "" ? path : `${path}?${query}`;
}

// URLs drop the segments "." and "..", also encoded.
function segment(name: string): string {
  if (name === "" || name === "." || name === "..") {
    throw new InvalidError(`${JSON.stringify(name)} is no name or ID`);
  }
  return encodeURIComponent(name);
}

function describe(e: unknown): string {
  if (!(e instanceof Error)) {
    return String(e);
  }
  const cause = e.cause instanceof Error ? e.cause.message || codeOf(e) : "";
  return cause ? `${e.message}: ${cause}` : e.message;
}

interface SystemError {
  code?: unknown;
  syscall?: unknown;
  /** Of an AggregateError: a host has several addresses, and none can be reached. */
  errors?: unknown;
}

// Node's fetch has the system's error, or its own, as the cause.
function systemError(e: unknown): SystemError {
  const error = e as (SystemError & { cause?: SystemError | null }) | null | undefined;
  return (error?.cause?.code === undefined ? error : error.cause) ?? {};
}

function codeOf(e: unknown): string {
  const { code } = systemError(e);
  return typeof code === "string" ? code : "";
}

// Node sends nothing before it has verified the certificate. Other errors of TLS, and those
// of a network that is gone, also end connections on which a request was sent.
const BEFORE_SENDING = /^(UND_ERR_CONNECT_TIMEOUT|CERT_\w+|UNABLE_TO_\w+|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|ERR_TLS_CERT_ALTNAME_INVALID)$/;

// What is there answered a handshake with something else.
const NO_TLS = /^(EPROTO|ERR_SSL_WRONG_VERSION_NUMBER|ERR_SSL_PACKET_LENGTH_TOO_LONG)$/;

function isOfConnecting(e: SystemError | null | undefined): boolean {
  return e?.syscall === "connect" || e?.syscall === "getaddrinfo";
}

// What Deno says of a connection: "client error (Connect)", or of one that it had (SendRequest).
function denoError(e: unknown): string {
  return /client error \((\w+)\)/.exec(describe(e))?.[1] ?? "";
}

// Whether it is certain that the gateway got nothing. Browsers do not tell.
function wasNotSent(e: unknown): boolean {
  const error = systemError(e);
  const connecting = Array.isArray(error.errors) ? error.errors.length > 0 && error.errors.every(isOfConnecting) : isOfConnecting(error);
  return connecting || BEFORE_SENDING.test(codeOf(e)) || denoError(e) === "Connect";
}

// Whether there was a connection. Errors of TLS, and answers that are not HTTP, do not tell:
// what is there may be no gateway.
function wasCut(e: unknown): boolean {
  const code = codeOf(e);
  return (code !== "" || denoError(e) !== "") && !/CERT|TLS|SSL|EPROTO|HPE_INVALID_CONSTANT/.test(code) && !wasNotSent(e);
}
