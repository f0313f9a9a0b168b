/**
 * Run commands in a Corral gateway, and read their output.
 *
 *     const corral = new Corral({ url: "http://127.0.0.1:7777", key });
 *     const result = await corral.run("make test");
 *     console.log(result.exitCode, result.text);
 *
 * The client goes on by itself when the gateway restarts: output is read on from the offset
 * that was reached, so no byte is lost or read twice.
 *
 * @module
 */
export { type AnswerOptions, type Approval, Corral, type CorralOptions, type RunOptions } from "./client.js";
export type { Command, StartOptions, Text } from "./command.js";
export {
  ApprovalPendingError,
  BadDirectoryError,
  ConflictError,
  CorralError,
  DeniedError,
  EndedError,
  type ErrorFields,
  InternalError,
  InvalidError,
  LostError,
  NotFoundError,
  NotListeningError,
  RunningError,
  StdinClosedError,
  StillRunningError,
  TooLargeError,
  TooManyError,
  UnauthorizedError,
  UnavailableError,
  UnsupportedError,
} from "./errors.js";
export { type Event, type ExitEvent, type GapEvent, type OutputEvent, type PauseEvent, type StartedEvent, Stream } from "./events.js";
export { type FileInfo, Files, type ReadOptions, type WriteOptions } from "./files.js";
export { type EventsOptions, type SessionEvent, SessionEvents } from "./happenings.js";
export type { CallOptions } from "./http.js";
export { type Address, type Fields, type FetchOptions, Sandbox } from "./sandbox.js";
export { type LogOptions, Result, type ResultOptions, Session, type Status, type WaitOptions } from "./session.js";
