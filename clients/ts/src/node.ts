/**
 * What only Node can: a gateway at a Unix socket, or with a certificate that is known by its
 * fingerprint.
 *
 *     import { nodeFetch } from "@corral-exec/client/node";
 *     const corral = new Corral({ url: "https://build.example:7777", key, fetch: nodeFetch({ fingerprint }) });
 *
 * @module
 */
import { type ClientRequest, type IncomingMessage, type RequestOptions, request as plain } from "node:http";
import { request as secure } from "node:https";
import { Readable } from "node:stream";
import type { TLSSocket } from "node:tls";

import { DeniedError, InvalidError } from "./errors.js";

export interface NodeOptions {
  /** The path of the gateway's socket, gateway.sock in its state directory. Host and port of the URL do not matter then. */
  socket?: string;
  /** SHA-256 of the gateway's certificate, whoever signed it. */
  fingerprint?: string;
}

/** A fetch for CorralOptions. It does just what the client needs. */
export function nodeFetch(options: NodeOptions): typeof fetch {
  const want = options.fingerprint?.replaceAll(":", "").toLowerCase();
  return (input, init = {}) => {
    const url = new URL(String(input));
    const settings: RequestOptions = { method: init.method ?? "GET", headers: init.headers as Record<string, string>, agent: false };
    if (init.signal) {
      settings.signal = init.signal;
    }
    if (options.socket !== undefined) {
      settings.socketPath = options.socket;
    }
    const pinned = want !== undefined;
    if (pinned && url.protocol !== "https:") {
      return Promise.reject(new InvalidError(`${url.origin} has no certificate, and a fingerprint was given`, { hint: "write it with https://" }));
    }
    return new Promise<Response>((resolve, reject) => {
      const sent: ClientRequest = pinned
        ? secure(url, { ...settings, rejectUnauthorized: false, minVersion: "TLSv1.2" })
        : url.protocol === "https:"
          ? secure(url, { ...settings, minVersion: "TLSv1.2" })
          : plain(url, settings);
      const send = (): void => void sent.end(init.body as Uint8Array | undefined);
      sent.on("error", reject);
      sent.on("response", (message: IncomingMessage) => {
        const status = message.statusCode ?? 0;
        const empty = status === 204 || status === 205 || status === 304; // a Response of these takes no body
        const body = empty ? null : (Readable.toWeb(message) as ReadableStream<Uint8Array>);
        const headers = new Headers();
        for (let i = 0; i + 1 < message.rawHeaders.length; i += 2) {
          headers.append(message.rawHeaders[i] ?? "", message.rawHeaders[i + 1] ?? "");
        }
        try {
          resolve(new Response(body, { status, headers }));
        } catch (e) {
          reject(e); // a status that it does not take
          sent.destroy();
          return;
        }
        if (empty) {
          message.resume();
        }
      });
      if (!pinned) {
        send();
        return;
      }
      // Nothing is sent, the key least of all, before the certificate is known.
      sent.on("socket", (socket) => {
        socket.once("secureConnect", () => {
          const got = (socket as TLSSocket).getPeerCertificate().fingerprint256?.replaceAll(":", "").toLowerCase();
          if (got === want) {
            send();
          } else {
            const message = `the gateway's certificate has the fingerprint ${got}, and not ${want}`;
            sent.destroy(new DeniedError(message, { hint: "compare it with the one in the gateway's log" }));
          }
        });
      });
    });
  };
}
