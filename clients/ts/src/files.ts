// Files of a sandbox, from outside.

import { type Call, type CallOptions, type Query, type Transport, parseJSON } from "./http.js";

export interface FileInfo {
  path: string;
  /** In base64, of a path that is not UTF-8. */
  pathBytes?: string;
  type: string;
  size: number;
  mode: string;
  uid: number;
  gid: number;
  modTime: string;
  /** Of a link. */
  target?: string;
  /** Extended attributes of users, of a file in the workspace. */
  attributes?: Record<string, string>;
  [more: string]: unknown;
}

export interface ReadOptions extends CallOptions {
  offset?: number;
  /** At most so many bytes. */
  limit?: number;
}

export interface WriteOptions extends CallOptions {
  /** Permissions, such as 0o640. */
  mode?: number;
  /** Makes the directories above it. */
  parents?: boolean;
  /** The file must not be there. */
  new?: boolean;
}

/** The files of a sandbox of the agent. Paths are absolute, or relative to the workspace. */
export class Files {
  readonly #transport: Transport;
  readonly #sandbox: string;

  constructor(transport: Transport, sandbox: string) {
    this.#transport = transport;
    this.#sandbox = sandbox;
  }

  /** The content of a file: all of it, or at most limit bytes. At most 64 MiB. */
  read(path: string, options: ReadOptions = {}): Promise<Uint8Array> {
    return this.#bytes("GET", "content", path, options, { offset: options.offset || undefined, limit: options.limit || undefined });
  }

  /** Writes a file as a whole. */
  write(path: string, data: Uint8Array | string, options: WriteOptions = {}): Promise<FileInfo> {
    const body = typeof data === "string" ? new TextEncoder().encode(data) : data;
    const query = { mode: octal(options.mode), parents: options.parents, new: options.new };
    return this.#json<FileInfo>("PUT", "content", path, options, query, { body, once: options.new === true });
  }

  /** What is in a directory. */
  async *list(path = ".", options: CallOptions = {}): AsyncGenerator<FileInfo, void, undefined> {
    for (let after: string | undefined; ; ) {
      const page: { entries: FileInfo[]; next?: string } = await this.#json("GET", "", path, options, { after });
      yield* page.entries;
      after = page.next;
      if (!after) {
        return;
      }
    }
  }

  /** Describes a file. */
  stat(path: string, options: CallOptions = {}): Promise<FileInfo> {
    return this.#json<FileInfo>("GET", "stat", path, options);
  }

  /** Makes a directory. parents: also those above it, and it may be there. */
  async mkdir(path: string, options: CallOptions & { mode?: number; parents?: boolean } = {}): Promise<void> {
    const query = { mode: octal(options.mode), parents: options.parents };
    await this.#bytes("POST", "directory", path, options, query, { once: options.parents !== true });
  }

  /** Removes a file, or with all a directory and what is in it. */
  async remove(path: string, options: CallOptions & { all?: boolean } = {}): Promise<void> {
    await this.#bytes("DELETE", "", path, options, { all: options.all }, { once: true });
  }

  #bytes(method: string, under: string, path: string, options: CallOptions, query: Query = {}, more: Partial<Call> = {}): Promise<Uint8Array> {
    const at = ["sandboxes", this.#sandbox, "files"];
    return this.#transport.bytes({
      method,
      path: under ? [...at, under] : at,
      query: { path, ...query },
      type: "application/octet-stream",
      signal: options.signal,
      ...more,
    });
  }

  async #json<T>(method: string, under: string, path: string, options: CallOptions, query: Query = {}, more: Partial<Call> = {}): Promise<T> {
    return parseJSON(await this.#bytes(method, under, path, options, query, more)) as T;
  }
}

function octal(mode: number | undefined): string | undefined {
  return mode?.toString(8);
}
