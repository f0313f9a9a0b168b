// A gateway for tests. It runs commands on this machine, without a sandbox.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, openSync, closeSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { Corral } from "@corral-exec/client";

export const encode = (text) => new TextEncoder().encode(text);
export const decode = (bytes) => new TextDecoder().decode(bytes);

export class Gateway {
  constructor(...flags) {
    this.dir = mkdtempSync(join(process.env.CORRAL_TEST_DIR ?? tmpdir(), "corral-ts-"));
    this.state = join(this.dir, "state");
    this.work = join(this.dir, "work");
    mkdirSync(this.work);
    this.flags = flags;
    this.listen = "127.0.0.1:0";
    this.scheme = "http";
    this.logFile = join(this.dir, "log");
    this.log = openSync(this.logFile, "a");
  }

  /** Starts it, the second time on the same port. */
  async start() {
    if (!process.env.CORRAL_BIN) {
      throw new Error("CORRAL_BIN does not name the program corral");
    }
    const env = Object.fromEntries(Object.entries(process.env).filter(([k]) => !k.startsWith("CORRAL_") && k !== "XDG_STATE_HOME"));
    const before = this.said().length;
    this.process = spawn(
      process.env.CORRAL_BIN,
      ["gateway", "--state-dir", this.state, "--sandbox", "off", "--workspace", this.work, "--listen", this.listen, ...this.flags],
      { stdio: ["ignore", this.log, this.log], env: { ...env, HOME: this.dir, XDG_CONFIG_HOME: this.dir, SHELL: "/bin/sh" } },
    );
    for (let i = 0; i < 1200; i++) {
      const found = [...this.said().slice(before).matchAll(/address=(127\.0\.0\.1:\d+)/g)].pop();
      if (found && existsSync(join(this.state, "gateway.sock"))) {
        this.listen = found[1];
        return this;
      }
      if (this.process.exitCode !== null || this.process.signalCode !== null) {
        break;
      }
      await sleep(25);
    }
    throw new Error("the gateway does not listen: " + this.said());
  }

  get url() {
    return this.scheme + "://" + this.listen;
  }

  get token() {
    return readFileSync(join(this.state, "gateway.token"), "ascii").trim();
  }

  client(options = {}) {
    return new Corral({ url: this.url, key: this.token, ...options });
  }

  /** The secret of a new key. */
  createKey(name, ...flags) {
    return execFileSync(process.env.CORRAL_BIN, ["keys", "create", name, ...flags, "--state-dir", this.state], { encoding: "utf8" }).trim();
  }

  said() {
    return readFileSync(this.logFile, "utf8");
  }

  async end(signal) {
    if (this.process && this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill(signal);
      await once(this.process, "exit");
    }
  }

  /** kill -9 */
  kill() {
    return this.end("SIGKILL");
  }

  stop() {
    return this.end("SIGTERM");
  }

  async close() {
    await this.stop();
    closeSync(this.log);
    // The warden may still write. rmSync does not look again for what is new in a directory.
    for (let tries = 0; ; tries++) {
      try {
        return rmSync(this.dir, { recursive: true, force: true });
      } catch (e) {
        if (e.code !== "ENOTEMPTY" || tries === 100) {
          throw e;
        }
      }
      await sleep(50);
    }
  }
}
