/**
 * A sandbox of Corral as the sandbox session of the AI SDK (package ai).
 *
 *     import { sandboxSession } from "@corral-exec/client/ai";
 *     const session = sandboxSession(corral, { sandbox: "main" });
 *
 * Commands go through the gateway's policy, and run in the sandbox.
 *
 * @module
 */
import type { Corral } from "./client.js";
import { CorralError, EndedError, InvalidError, NotFoundError } from "./errors.js";
import type { FileInfo } from "./files.js";
import type { LogOptions, Session, Status } from "./session.js";

export interface SandboxOptions {
  /** The sandbox of the client's agent; by default main. */
  sandbox?: string;
  /** What the model is told of it. */
  description?: string;
}

interface Aborted {
  abortSignal?: AbortSignal;
}
interface PathOptions extends Aborted {
  path: string;
}
interface CommandOptions extends Aborted {
  command: string;
  workingDirectory?: string;
  env?: Record<string, string>;
}
interface Process {
  readonly pid?: number;
  readonly stdout: ReadableStream<Uint8Array>;
  readonly stderr: ReadableStream<Uint8Array>;
  wait(): Promise<{ exitCode: number }>;
  kill(): Promise<void>;
}
type WritableProcess = Process & { readonly stdin: WritableStream<Uint8Array> };

const KINDS = ["file", "directory", "symlink"] as const;
const DESCRIPTION = "A Linux sandbox. Commands are run by sh; relative paths begin in the workspace.";

/** What the AI SDK calls a SandboxSession, of the client's agent. */
export function sandboxSession(corral: Corral, options: SandboxOptions = {}) {
  const { files } = corral.sandbox(options.sandbox ?? "main");

  /** Does what needs the sandbox, which is made for a command only. */
  async function awake<T>(step: () => Promise<T>): Promise<T> {
    try {
      return await step();
    } catch (e) {
      if (!(e instanceof NotFoundError)) {
        throw e;
      }
    }
    await corral.run("true", { host: "sandbox" });
    return step();
  }

  async function orNull<T>(step: () => Promise<T>): Promise<T | null> {
    try {
      return await awake(step);
    } catch (e) {
      if (e instanceof NotFoundError) {
        return null;
      }
      throw e;
    }
  }

  const readBinaryFile = ({ path, abortSignal: signal }: PathOptions): Promise<Uint8Array | null> => orNull(() => files.read(path, { signal }));

  const writeBinaryFile = async ({ path, content, abortSignal: signal }: PathOptions & { content: Uint8Array }): Promise<void> => {
    await awake(() => files.write(path, content, { parents: true, signal }));
  };

  /** What a path is, of a link what it leads to. */
  async function followed(path: string, signal: AbortSignal | undefined): Promise<FileInfo> {
    for (let i = 0; i < 40; i++) {
      const info = await files.stat(path, { signal });
      if (info.type !== "symlink" || info.target === undefined) {
        return info;
      }
      path = info.target.startsWith("/") ? info.target : `${info.path.replace(/[^/]*$/, "")}${info.target}`;
    }
    throw new InvalidError(`${path} leads to too many links`);
  }

  /** Starts a command. One that is aborted meanwhile is started all the same, and ended then. */
  function start({ command, abortSignal: signal, workingDirectory: workdir, env }: CommandOptions, stdin: boolean): Promise<Session> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const begun = corral.start(command, { host: "sandbox", stdin, ...(workdir !== undefined && { workdir }), ...(env !== undefined && { env }) });
      const aborted = (): void => {
        reject(signal?.reason);
        begun.then(end).catch(() => {});
      };
      signal?.addEventListener("abort", aborted, { once: true });
      begun.then(resolve, reject).finally(() => signal?.removeEventListener("abort", aborted));
    });
  }

  async function spawn(command: CommandOptions & { stdin: true }): Promise<WritableProcess>;
  async function spawn(command: CommandOptions & { stdin?: false }): Promise<Process>;
  async function spawn(command: CommandOptions & { stdin?: boolean }): Promise<Process | WritableProcess>;
  async function spawn(command: CommandOptions & { stdin?: boolean }): Promise<Process | WritableProcess> {
    const session = await start(command, command.stdin === true);
    const kill = (): Promise<void> => end(session);
    const signal = command.abortSignal;
    const aborted = (): void => void kill().catch(() => {}); // wait tells of it
    signal?.addEventListener("abort", aborted, { once: true });
    const process: Process = {
      pid: session.info.pid,
      stdout: outputOf(session, "stdout", { signal }),
      stderr: outputOf(session, "stderr", { signal }),
      async wait() {
        const status = await session.wait({ signal });
        signal?.removeEventListener("abort", aborted);
        return { exitCode: exitCode(status) };
      },
      kill,
    };
    if (!command.stdin) {
      return process;
    }
    const stdin = new WritableStream<Uint8Array>({ write: (data) => session.write(data), close: () => session.closeStdin() });
    return { ...process, stdin };
  }

  return {
    description: options.description ?? DESCRIPTION,
    readBinaryFile,
    writeBinaryFile,

    async readFile(of: PathOptions): Promise<ReadableStream<Uint8Array> | null> {
      const data = await readBinaryFile(of);
      return data && new Blob([data as Uint8Array<ArrayBuffer>]).stream();
    },

    async readTextFile(of: PathOptions & { encoding?: string; startLine?: number; endLine?: number }): Promise<string | null> {
      const data = await readBinaryFile(of);
      const text = data && new TextDecoder(of.encoding).decode(data);
      if (!text || (of.startLine === undefined && of.endLine === undefined)) {
        return text;
      }
      return text.split(/(?<=\n)/).slice((of.startLine ?? 1) - 1, of.endLine).join("");
    },

    async writeFile(to: PathOptions & { content: ReadableStream<Uint8Array> }): Promise<void> {
      const content = new Uint8Array(await new Response(to.content as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer());
      await writeBinaryFile({ ...to, content });
    },

    async writeTextFile(to: PathOptions & { content: string; encoding?: string }): Promise<void> {
      if (!/^utf-?8$/i.test(to.encoding ?? "utf-8")) {
        throw new InvalidError(`text is written as UTF-8, not as ${to.encoding}`, { hint: "encode it, and use writeBinaryFile" });
      }
      await writeBinaryFile({ ...to, content: new TextEncoder().encode(to.content) });
    },

    async stat({ path, abortSignal }: PathOptions): Promise<{ type: "file" | "directory" | "other"; size: number } | null> {
      const info = await orNull(() => followed(path, abortSignal));
      return info && { type: info.type === "file" || info.type === "directory" ? info.type : "other", size: info.size };
    },

    listDirectory({ path, abortSignal: signal }: PathOptions) {
      return orNull(async () => {
        const entries: { name: string; type: (typeof KINDS)[number] | "other" }[] = [];
        for await (const entry of files.list(path, { signal })) {
          entries.push({ name: entry.path.replace(/^.*\//s, ""), type: KINDS.find((kind) => kind === entry.type) ?? "other" });
        }
        return entries;
      });
    },

    async deleteFile({ path, abortSignal: signal }: PathOptions): Promise<boolean> {
      const done = await orNull(async () => {
        if ((await files.stat(path, { signal })).type === "directory") {
          throw new InvalidError(`${path} is a directory`);
        }
        await files.remove(path, { signal });
        return true;
      });
      return done ?? false;
    },

    spawn,

    async run(command: CommandOptions): Promise<{ exitCode: number; stdout: string; stderr: string }> {
      const session = await start(command, false);
      try {
        const r = await session.result({ signal: command.abortSignal });
        const [stdout, stderr] = [r.stdout, r.stderr].map((data) => new TextDecoder().decode(data)) as [string, string];
        return { exitCode: exitCode(r.session), stdout, stderr: r.omitted > 0 ? stderr + missing(r.omitted) : stderr };
      } catch (e) {
        if (command.abortSignal?.aborted) {
          await end(session);
        }
        throw e;
      }
    },
  };
}

/** One of the two streams of a session. Each has a connection of its own, so that neither waits for the other to be read. */
function outputOf(session: Session, name: "stdout" | "stderr", options: LogOptions): ReadableStream<Uint8Array> {
  const events = session.log(options);
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          const { done, value: event } = await events.next();
          if (done) {
            controller.close();
            return;
          }
          if (event.type === name || event.type === "gap") {
            controller.enqueue(event.type === "gap" ? new TextEncoder().encode(missing(event.next - event.offset)) : event.data);
            return;
          }
        }
      },
      cancel: () => events.close(),
    },
    { highWaterMark: 0 },
  );
}

/** Ends a session, if it has not ended. */
async function end(session: Session): Promise<void> {
  try {
    await session.kill();
  } catch (e) {
    if (!(e instanceof EndedError)) {
      throw e;
    }
  }
}

function missing(bytes: number): string {
  return `\n[${bytes} bytes of output are missing]\n`;
}

function exitCode(status: Status): number {
  const { exitCode: code = null, signal = null } = status.exit ?? {};
  if (code === null && signal === null) {
    throw new CorralError(`it is not known how session ${status.sessionId} ended: ${status.reason ?? ""}`);
  }
  return code ?? 128 + (signal ?? 0);
}
