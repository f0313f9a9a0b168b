// The client of one gateway.

import { type Command, type StartOptions, startBody } from "./command.js";
import { EVENTS_TYPE, Stream } from "./events.js";
import { type EventsOptions, SessionEvents } from "./happenings.js";
import { type Call, type CallOptions, Transport } from "./http.js";
import { type Fields, Sandbox } from "./sandbox.js";
import { Result, type ResultOptions, Session, type Status, collect, feed, logCall, pick } from "./session.js";

export interface CorralOptions {
  /** The gateway's address, such as http://127.0.0.1:7777. */
  url: string;
  /** A key, or the token in gateway.token. */
  key?: string;
  /** Whose sessions the calls are about; by default main, or the key's only agent. */
  agent?: string;
  /** The conversation, for sandboxes that each has of its own. */
  session?: string;
  /** On whose behalf the calls are made: PROVIDER:ID. */
  sender?: string;
  /** For how many seconds a gateway that was reached may be away before a call fails; by default 30. */
  retry?: number;
  /** For how many seconds the gateway may be silent in a call; by default 600. */
  timeout?: number;
  /** Instead of the platform's. */
  fetch?: typeof fetch;
}

export interface RunOptions extends Omit<StartOptions, "stdin">, ResultOptions {
  /** All of its input. */
  stdin?: Uint8Array | string;
}

/** An approval, and the command that waits for it. */
export interface Approval extends Fields {
  approvalId: string;
  /** A short name, as good as the ID. */
  approvalSlug: string;
  state: string;
  /** Shell text. */
  command?: string;
  /** Or a program and its arguments. */
  args?: string[];
  allowedDecisions: string[];
  /** The session that the command is, or will be. */
  commandId?: string;
}

export interface AnswerOptions extends CallOptions {
  scope?: string;
  /** Who answers. */
  by?: string;
}

/** Speaks to one gateway, for one agent. Nothing is open between calls. */
export class Corral {
  readonly #transport: Transport;

  constructor(options: CorralOptions) {
    const headers: Record<string, string> = {};
    const add = (name: string, value: string | undefined): void => {
      if (value) {
        headers[name] = value;
      }
    };
    add("Corral-Agent", options.agent);
    add("Corral-Session", options.session);
    add("Corral-Sender", options.sender);
    add("Authorization", options.key && `Bearer ${options.key.trim()}`);
    const send = options.fetch ?? globalThis.fetch.bind(globalThis);
    this.#transport = new Transport({ url: options.url, headers, retry: options.retry ?? 30, timeout: options.timeout ?? 600, fetch: send });
  }

  /** UnavailableError if the gateway takes no commands now. */
  async ready(options: CallOptions = {}): Promise<void> {
    await this.#transport.bytes({ method: "GET", path: ["ready"], ...pick(options) });
  }

  // Commands

  /**
   * Runs a command to its end. A command that fails is no error: look at exitCode. Of the
   * output at most maxOutput bytes are kept. An abort ends the call, not the command.
   */
  async run(command: Command, options: RunOptions = {}): Promise<Result> {
    const { stdin, maxOutput, ...start } = options;
    if (stdin === undefined || stdin.length === 0) {
      return collect(this.exec(command, start), maxOutput);
    }
    const session = await this.start(command, { ...start, stdin: true });
    await feed(session, stdin, pick(options));
    return collect(session.log(pick(options)), maxOutput);
  }

  /** Starts a command, when the first event is asked for, and iterates over its events: started, its output, exit. */
  exec(command: Command, options: StartOptions = {}): Stream {
    const body = new TextEncoder().encode(JSON.stringify(startBody(command, options)));
    const first: Call = { method: "POST", path: ["sessions"], body, accept: EVENTS_TYPE };
    return new Stream(this.#transport, { first, then: logCall }, options);
  }

  /** Starts a command in the background. */
  async start(command: Command, options: StartOptions = {}): Promise<Session> {
    const json = startBody(command, options);
    return new Session(this.#transport, await this.#json<Status>("POST", ["sessions"], { ...pick(options), json }));
  }

  /** Calls a tool, such as exec or process, as an agent does. */
  tool(name: string, args: Fields = {}, options: CallOptions = {}): Promise<Fields> {
    const path = name === "exec" || name === "process" ? [name] : ["tools", name];
    return this.#json<Fields>("POST", path, { ...pick(options), json: args, once: true });
  }

  /** Says whether a command would run. Nothing is started. */
  explain(command: Command, options: StartOptions = {}): Promise<Fields> {
    const { id: _, ...json } = startBody(command, options);
    return this.#json<Fields>("POST", ["explain"], { ...pick(options), json });
  }

  // Sessions

  /** The sessions, the newest first. info of each is its status. */
  async sessions(options: CallOptions & { allAgents?: boolean } = {}): Promise<Session[]> {
    const query = { agent: options.allAgents ? "*" : undefined };
    const { sessions } = await this.#json<{ sessions: Status[] }>("GET", ["sessions"], { ...pick(options), query });
    return sessions.map((info) => new Session(this.#transport, info));
  }

  /** The session of that ID. */
  async session(id: string, options: CallOptions = {}): Promise<Session> {
    return new Session(this.#transport, await this.#json<Status>("GET", ["sessions", id], pick(options)));
  }

  /** Iterates over what happens to the sessions, such as the end of one with notifyOnExit. */
  events(options: EventsOptions = {}): SessionEvents {
    return new SessionEvents(this.#transport, options);
  }

  // Sandboxes

  /** The sandboxes of all agents. */
  async sandboxes(options: CallOptions = {}): Promise<(Fields & { name: string })[]> {
    return (await this.#json<{ sandboxes: (Fields & { name: string })[] }>("GET", ["sandboxes"], pick(options))).sandboxes;
  }

  /** The sandbox of that name, with its files. */
  sandbox(name: string): Sandbox {
    return new Sandbox(this.#transport, name);
  }

  // Approvals

  /** What commands wait for (state: "pending"), or waited for. */
  async approvals(options: CallOptions & { state?: string; agent?: string } = {}): Promise<Approval[]> {
    const query = { state: options.state, agent: options.agent };
    return (await this.#json<{ approvals: Approval[] }>("GET", ["approvals"], { ...pick(options), query })).approvals;
  }

  /** Iterates over approvals as they are made and answered, of one agent or of all; after is the number of a change. */
  approvalChanges(options: Omit<EventsOptions, "allAgents"> & { agent?: string } = {}): SessionEvents<Approval> {
    return new SessionEvents<Approval>(this.#transport, options, ["approvals", "changes"]);
  }

  /** An approval, by its ID, its slug, or a beginning of one. */
  approval(ref: string, options: CallOptions = {}): Promise<Approval> {
    return this.#json<Approval>("GET", ["approvals", ref], pick(options));
  }

  /** Answers an approval. */
  answer(ref: string, decision: "allow-once" | "allow-always" | "deny", options: AnswerOptions = {}): Promise<Approval> {
    const json = { decision, scope: options.scope, by: options.by };
    return this.#json<Approval>("POST", ["approvals", ref], { ...pick(options), json, once: true });
  }

  /** Denies all pending approvals, or all of one agent. */
  async denyAll(options: CallOptions & { agent?: string; by?: string } = {}): Promise<Approval[]> {
    const json = { decision: "deny", agent: options.agent, by: options.by };
    return (await this.#json<{ approvals: Approval[] }>("POST", ["approvals"], { ...pick(options), json })).approvals;
  }

  // Nodes

  /** The paired nodes. NotFoundError if the gateway does not listen for any. */
  async nodes(options: CallOptions = {}): Promise<Fields[]> {
    return (await this.#json<{ nodes: Fields[] }>("GET", ["nodes"], pick(options))).nodes;
  }

  /** A node, by its ID, key or name. */
  node(ref: string, options: CallOptions = {}): Promise<Fields> {
    return this.#json<Fields>("GET", ["nodes", ref], pick(options));
  }

  #json<T>(method: string, path: string[], more: Parameters<Transport["json"]>[2]): Promise<T> {
    return this.#transport.json<T>(method, path, more);
  }
}
