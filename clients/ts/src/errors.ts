// Errors of a gateway. docs/reference/http.md says what each code means.

/** What is known of an error beside its message. */
export interface ErrorFields {
  hint?: string;
  details?: unknown;
  status?: number;
  code?: string;
  written?: number;
  retryAfter?: number;
  cause?: unknown;
}

/** Any error that a gateway answers, or that keeps it from answering. */
export class CorralError extends Error {
  /** The code of the API, such as "not-found". */
  readonly code: string;
  /** What to do about it. */
  readonly hint: string;
  /** More, as the gateway's JSON has it. */
  readonly details: unknown;
  /** The status of HTTP; 0: there was no answer. */
  readonly status: number;
  /** Bytes of input that the command took before the error. */
  written: number;
  /** Seconds after which to try again, where the gateway says it; else 0. */
  readonly retryAfter: number;
  /** @internal An earlier try, whose answer was cut, may have been acted on. */
  repeated = false;

  constructor(message: string, fields: ErrorFields = {}) {
    super(fields.hint ? `${message} (${fields.hint})` : message, fields.cause === undefined ? undefined : { cause: fields.cause });
    this.name = new.target.name;
    this.code = fields.code || CODES.get(new.target) || "";
    this.hint = fields.hint ?? "";
    this.details = fields.details;
    this.status = fields.status ?? 0;
    this.written = fields.written ?? 0;
    this.retryAfter = fields.retryAfter ?? 0;
  }
}

/** The request is wrong. Correct it. */
export class InvalidError extends CorralError {}

/** The working directory is not there. Nothing ran. */
export class BadDirectoryError extends InvalidError {}

/** The request, or its answer, is too large. */
export class TooLargeError extends InvalidError {}

/** The command may not run. details is the decision, if a policy made it. */
export class DeniedError extends CorralError {}

/** The key is missing or wrong. */
export class UnauthorizedError extends DeniedError {}

/** Nothing ran. It will when an operator approves it. details is the approval. */
export class ApprovalPendingError extends CorralError {
  get approvalId(): string {
    const id = (this.details as { approvalId?: unknown } | null | undefined)?.approvalId;
    return typeof id === "string" ? id : "";
  }
}

/** There is no such thing. */
export class NotFoundError extends CorralError {}

/** The ID belongs to another command, or there was another answer first. */
export class ConflictError extends CorralError {}

/** The session runs, and that is not permitted. */
export class RunningError extends CorralError {}

/** The session has ended. */
export class EndedError extends CorralError {}

/** The command takes no input any more. */
export class StdinClosedError extends EndedError {}

/** A quota of the key is used up. Nothing ran. See retryAfter. */
export class TooManyError extends CorralError {}

/** The host cannot do that. */
export class UnsupportedError extends CorralError {}

/** The gateway, or the host, cannot be reached. Nothing ran; repeating is safe. */
export class UnavailableError extends CorralError {}

/** It is not known whether it was done. Repeating may do it twice. */
export class LostError extends CorralError {}

/** Nothing listens on that port of the sandbox. */
export class NotListeningError extends CorralError {}

/** A defect. The gateway's log says more. */
export class InternalError extends CorralError {}

/** Session.wait: the session still runs. */
export class StillRunningError extends CorralError {}

type Kind = new (message: string, fields?: ErrorFields) => CorralError;

const BY_CODE = new Map<string, Kind>([
  ["invalid", InvalidError],
  ["bad-directory", BadDirectoryError],
  ["too-large", TooLargeError],
  ["denied", DeniedError],
  ["unauthorized", UnauthorizedError],
  ["approval-pending", ApprovalPendingError],
  ["not-found", NotFoundError],
  ["conflict", ConflictError],
  ["running", RunningError],
  ["ended", EndedError],
  ["stdin-closed", StdinClosedError],
  ["too-many", TooManyError],
  ["unsupported", UnsupportedError],
  ["unavailable", UnavailableError],
  ["not-listening", NotListeningError],
  ["lost", LostError],
  ["internal", InternalError],
]);

const CODES = new Map<Function, string>([...BY_CODE].map(([code, kind]) => [kind, code]));

// The best guess from a status alone.
const BY_STATUS = new Map<number, Kind>([
  [401, UnauthorizedError],
  [403, DeniedError],
  [404, NotFoundError],
  [409, ConflictError],
  [410, NotFoundError],
  [413, TooLargeError],
  [429, TooManyError],
  [501, UnsupportedError],
  [502, LostError],
  [503, UnavailableError],
  [504, LostError],
]);

/** The error in an answer that is no success. A redirect is none: gateways send nobody elsewhere. */
export function fromAnswer(status: number, body: Uint8Array, retryAfter = 0): CorralError {
  const byStatus = BY_STATUS.get(status) ?? (status < 500 ? InvalidError : InternalError);
  const text = new TextDecoder().decode(body);
  let answer: { error?: { code?: unknown; message?: unknown; hint?: unknown; details?: unknown }; written?: unknown } | null = null;
  try {
    answer = JSON.parse(text);
  } catch {
    // An answer of something else; see below.
  }
  const error = answer?.error;
  if (typeof error?.message !== "string") {
    const begin = text.slice(0, 200).split(/\s+/).join(" ");
    return new byStatus(`the answer is ${status}: ${begin}`, { status, hint: "check that the address is that of a gateway of corral" });
  }
  const code = typeof error.code === "string" ? error.code : "";
  return new (BY_CODE.get(code) ?? byStatus)(error.message, {
    hint: typeof error.hint === "string" ? error.hint : "",
    details: error.details,
    status,
    code,
    written: typeof answer?.written === "number" ? answer.written : 0,
    retryAfter,
  });
}
