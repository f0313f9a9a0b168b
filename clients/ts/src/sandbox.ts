// A sandbox of the gateway.

import { Files } from "./files.js";
import type { CallOptions, Transport } from "./http.js";
import { pick } from "./session.js";

/** JSON of the API whose fields docs/reference/http.md and /openapi.json describe. */
export type Fields = Record<string, unknown>;

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
