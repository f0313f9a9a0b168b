// The request that starts a command.

import { InvalidError } from "./errors.js";
import type { CallOptions } from "./http.js";

/** Text, or bytes that need not be UTF-8. */
export type Text = string | Uint8Array;

/** Shell text, or a list of arguments. */
export type Command = Text | readonly Text[];

/** Options of a command; docs/reference/http.md describes them. Times are in seconds. */
export interface StartOptions extends CallOptions {
  /** To start the same command again with the same ID returns the same session. */
  id?: string;
  workdir?: string;
  env?: Record<string, Text>;
  /** Whether it reads input. */
  stdin?: boolean;
  tty?: { rows: number; cols: number };
  mergeStderr?: boolean;
  timeout?: number;
  /** Between SIGTERM and SIGKILL. */
  grace?: number;
  host?: string;
  node?: string;
  elevated?: boolean;
  security?: string;
  ask?: string;
  approval?: string;
  notifyOnExit?: boolean;
  pathPrepend?: readonly string[];
  /** How many bytes of output are kept, of the beginning and of the end. */
  log?: { head?: number; tail?: number };
}

/** The body that starts a command. */
export function startBody(command: Command, options: StartOptions): Record<string, unknown> {
  const { signal: _, env, ...body } = options;
  const binary: Record<string, unknown> = {};
  const result: Record<string, unknown> = { ...body, id: body.id || newID() }; // so that the start can be repeated
  if (Array.isArray(command)) {
    if (command.every(isText)) {
      result["args"] = command;
    } else {
      binary["args"] = command.map(base64);
    }
  } else if (isText(command as Text)) {
    result["command"] = command;
  } else {
    binary["command"] = base64(command as Text);
  }
  if (env !== undefined) {
    const all = Object.entries(env);
    if (all.every(([name, value]) => isText(name) && isText(value))) {
      result["env"] = env;
    } else {
      binary["env"] = all.map(([name, value]) => base64(concat(bytes(name + "="), bytes(value))));
    }
  }
  if (Object.keys(binary).length > 0) {
    result["binary"] = binary;
  }
  return result;
}

// JSON would have U+FFFD for half of a surrogate pair, which is another command.
function isText(value: Text): value is string {
  if (typeof value === "string" && /\p{Surrogate}/u.test(value)) {
    throw new InvalidError("text with half of a surrogate pair", { hint: "give bytes, as Uint8Array" });
  }
  return typeof value === "string";
}

function bytes(value: Text): Uint8Array {
  return typeof value === "string" ? new TextEncoder().encode(value) : value;
}

function concat(a: Uint8Array, b: Uint8Array): Uint8Array {
  const whole = new Uint8Array(a.length + b.length);
  whole.set(a);
  whole.set(b, a.length);
  return whole;
}

function base64(value: Text): string {
  return btoa(Array.from(bytes(value), (byte) => String.fromCharCode(byte)).join(""));
}

function newID(): string {
  const random = new Uint8Array(8);
  if (globalThis.crypto === undefined) {
    random.forEach((_, i) => (random[i] = Math.random() * 256)); // Node 18; an ID is no secret
  } else {
    crypto.getRandomValues(random);
  }
  return "js-" + Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
