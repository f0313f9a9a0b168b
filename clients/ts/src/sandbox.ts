// A sandbox of the gateway.

import { Files } from "./files.js";
import type { Call, CallOptions, Transport } from "./http.js";
import { pick } from "./session.js";

/** JSON of the API whose fields docs/reference/http.md and /openapi.json describe. */
export type Fields = Record<string, unknown>;

/** Where a port of a sandbox is. */
export interface Address {
  url: string;
  /** Opens all ports of the sandbox; a secret. As E2b-Traffic-Access-Token, or Authorization: Bearer. */
  token: string;
  /** For a browser; the token is in it. */
  open: string;
  /** No token is needed. */
  public: boolean;
}

export interface FetchOptions extends CallOptions {
  method?: string;
  headers?: Record<string, string>;
  body?: Uint8Array | string;
}

/** A sandbox, by its name. The gateway is asked about it when a method is called. */
export class Sandbox {
  readonly name: string;
  readonly files: Files;
  readonly #transport: Transport;

  constructor(transport: Transport, name: string) {
    this.#transport = transport;
    this.name = name;
    this.files = new Files(transport, name);
  }

  /** Its owner, state, engine, image and limits. */
  info(options: CallOptions = {}): Promise<Fields> {
    return this.#json("GET", [], pick(options));
  }

  /** One measurement of what it uses. */
  stats(options: CallOptions = {}): Promise<Fields> {
    return this.#json("GET", ["stats"], pick(options));
  }

  /** What happened to its container. */
  log(options: CallOptions & { all?: boolean } = {}): Promise<Fields> {
    return this.#json("GET", ["log"], { ...pick(options), query: { all: options.all } });
  }

  /** The address of a port. NotFoundError if the gateway gives ports no host names (gateway.domain). */
  address(port: number, options: CallOptions = {}): Promise<Address> {
    return this.#transport.json<Address>("GET", ["sandboxes", this.name, "address"], { ...pick(options), query: { port } });
  }

  /**
   * Sends one request of HTTP to what listens on a port of the sandbox, and is not repeated.
   * path may have a query. Any status is an answer, also that of the gateway when nothing
   * listens there (502).
   */
  fetch(port: number, path = "/", options: FetchOptions = {}): Promise<Response> {
    const { method = "GET", headers = {}, body, signal } = options;
    const call: Call = { method, path: ["sandboxes", this.name, "ports", String(port)], rest: path.startsWith("/") ? path : "/" + path, accept: "*/*", headers, signal };
    if (body !== undefined) {
      call.body = typeof body === "string" ? new TextEncoder().encode(body) : body;
    }
    return this.#transport.pass(call);
  }

  /** Makes a new container. Commands that run go on in the old one. */
  recreate(options: CallOptions = {}): Promise<Fields> {
    return this.#json("POST", ["recreate"], { ...pick(options), once: true });
  }

  /** Ends its commands, and removes it with its private workspace. */
  async remove(options: CallOptions = {}): Promise<void> {
    await this.#json("DELETE", [], { ...pick(options), once: true });
  }

  #json(method: string, path: string[], more: Parameters<Transport["json"]>[2]): Promise<Fields> {
    return this.#transport.json<Fields>(method, ["sandboxes", this.name, ...path], more);
  }
}
