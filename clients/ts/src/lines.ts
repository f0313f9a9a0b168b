// Lines of an answer that arrives in pieces.

import { InternalError } from "./errors.js";

const NEWLINE = 10;

/** Joins pieces of bytes into lines, of which none may be longer than max bytes. */
export class LineParser {
  readonly #max: number;
  #rest: Uint8Array[] = [];
  #length = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Yields the lines that piece completes, without their ends. */
  *push(piece: Uint8Array): Generator<Uint8Array, void, undefined> {
    let begin = 0;
    for (let end = piece.indexOf(NEWLINE); end >= 0; end = piece.indexOf(NEWLINE, begin)) {
      this.#keep(piece.subarray(begin, end));
      begin = end + 1;
      const line = join(this.#rest, this.#length);
      this.#rest = [];
      this.#length = 0;
      yield line;
    }
    this.#keep(piece.subarray(begin));
  }

  #keep(piece: Uint8Array): void {
    this.#length += piece.length;
    if (this.#length > this.#max) {
      throw new InternalError(`a line of more than ${this.#max} bytes`);
    }
    if (piece.length > 0) {
      this.#rest.push(piece);
    }
  }
}

/** The parts as one array of that length. */
export function join(parts: readonly Uint8Array[], length: number): Uint8Array {
  const [first] = parts;
  if (parts.length === 1 && first !== undefined) {
    return first;
  }
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
