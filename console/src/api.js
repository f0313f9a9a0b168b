// The HTTP API, as the pages call it. The cookie goes along by itself; the token is what
// shows that a request is from one of our pages.
const TOKEN = 'corral.token';

export const root = '/console/';

// A Fault is an error that the gateway answered, or that it could not be reached.
export class Fault extends Error {
  constructor(message, { status = 0, code = '', hint = '', details } = {}) {
    super(message);
    Object.assign(this, { status, code, hint, details });
  }
}

// A tiny observable value.
export function cell(value) {
  const listeners = new Set();
  return {
    get: () => value,
    set(v) {
      if (v === value) return;
      value = v;
      for (const f of [...listeners]) f(v);
    },
    listen(f) {
      listeners.add(f);
      return () => listeners.delete(f);
    },
  };
}

export const online = cell(true);
export const self = cell(null); // what the key may do; null: nobody is signed in
export const token = () => localStorage.getItem(TOKEN) || '';

export const may = (right) => !!self.get()?.rights.includes(right);
// mayAll: also what concerns all agents.
export const mayAll = (right) => may(right) && (self.get().agents.length === 0 || self.get().agents.includes('*'));

function signedOut() {
  localStorage.removeItem(TOKEN);
  self.set(null);
}

async function fault(response) {
  let body;
  try {
    body = (await response.json()).error;
  } catch {
    // it is not from a gateway
  }
  return new Fault(body?.message || `The answer is ${response.status} ${response.statusText}`, { ...body, status: response.status });
}

// request sends a request and returns the response, whose status is a success.
export async function request(method, path, { body, agent, session, type, signal, limit, headers = {} } = {}) {
  const h = { 'Corral-Console': token(), ...headers };
  if (agent) h['Corral-Agent'] = agent;
  if (session) h['Corral-Session'] = session;
  if (body !== undefined && !type) {
    body = JSON.stringify(body);
    type = 'application/json';
  }
  if (type) h['Content-Type'] = type;
  let response;
  try {
    const until = limit ? AbortSignal.any([AbortSignal.timeout(limit), ...(signal ? [signal] : [])]) : signal;
    response = await fetch(path, { method, body, headers: h, signal: until, credentials: 'same-origin', cache: 'no-store', redirect: 'error' });
  } catch (err) {
    if (signal?.aborted) throw err;
    online.set(false);
    throw new Fault('The gateway does not answer.', { code: 'unreachable' });
  }
  online.set(true);
  if (response.status === 401 && !h.Authorization) signedOut();
  if (!response.ok) throw await fault(response);
  return response;
}

const patience = 20_000; // ms that an answer may take

export async function call(method, path, options = {}) {
  const response = await request(method, path, { ...options, ...(method === 'GET' && { limit: patience }) });
  return response.status === 204 ? null : response.json();
}

export const get = (path, options) => call('GET', path, options);
export const post = (path, body = {}, options = {}) => call('POST', path, { body, ...options });

export async function signIn(secret) {
  const answer = await call('POST', root + 'login', { headers: { Authorization: 'Bearer ' + secret } });
  localStorage.setItem(TOKEN, answer.token);
  self.set(await get('/v1/key'));
}

// What another tab of this browser does counts here, too.
addEventListener('storage', (e) => { if (e.key === TOKEN && !e.newValue) self.set(null); });

export async function signOut() {
  await call('DELETE', root + 'login').catch(() => {});
  signedOut();
}

// resume finds out who is signed in.
export async function resume() {
  if (!token()) return;
  for (let wait = 500; ; wait = backoff(wait)) {
    try {
      self.set(await get('/v1/key'));
      return;
    } catch (err) {
      if (err.status) return;
      await sleep(wait);
    }
  }
}

export const backoff = (wait) => Math.min(wait * 1.7, 8000);

export function sleep(ms, signal) {
  return new Promise((resolve) => {
    const t = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => { clearTimeout(t); resolve(); }, { once: true });
  });
}

// loaded is a part of the program that is loaded when it is needed. If it cannot be, the
// page is loaded again, as it is without app.js.
export async function loaded(part) {
  try {
    return await part;
  } catch {
    await sleep(1000);
    location.reload();
    return new Promise(() => {});
  }
}

const maxEvent = 8 << 20; // characters

// events follows a stream of server-sent events until signal ends it, and comes back after
// a cut with the id of the last event.
export async function events(path, signal, onEvent) {
  let last = '', wait = 500;
  while (!signal.aborted) {
    let reader;
    try {
      const response = await request('GET', path, { signal, headers: { Accept: 'text/event-stream', ...(last && { 'Last-Event-ID': last }) } });
      wait = 500;
      reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        rest += value;
        if (rest.length > maxEvent) throw new Fault('an event is too long');
        const parts = rest.split('\n\n');
        rest = parts.pop();
        for (const part of parts) {
          let type = '', data = '';
          for (const line of part.split('\n')) {
            if (line.startsWith('id:')) last = line.slice(3).trim();
            else if (line.startsWith('event:')) type = line.slice(6).trim();
            else if (line.startsWith('data:')) data += line.slice(5);
          }
          if (data) onEvent(type, JSON.parse(data));
        }
      }
    } catch (err) {
      if (signal.aborted || err.status === 401 || err.status === 403 || err.status === 404) return;
      wait = backoff(wait);
    } finally {
      reader?.cancel().catch(() => {}); // it goes on after an event that is not understood
    }
    await sleep(wait, signal);
  }
}

// Frames of a log: see api/frame.go.
const header = 13, maxFrame = 256 << 10;
export const stdout = 1, stderr = 2;
const ends = { 0: 'end', 255: 'pause' };

const atOnce = 10; // ms that are spent on frames before the page gets its turn
const quiet = 5000; // ms after which it is asked whether there is output that did not come

// log follows a session's log from an offset. onFrame gets {stream, offset, data}; the
// next one is read when its promise is done. It returns {offset, end}: where it is, and
// whether the log has ended. It throws when the stream broke, after which it can be
// called again.
export async function log(session, { offset, follow = true, limit, signal, onFrame, onOpen }) {
  const q = new URLSearchParams({ offset });
  if (follow) q.set('follow', 'true');
  if (limit) q.set('limit', limit);
  const response = await request('GET', `${sessionPath(session)}/log?${q}`, { agent: session.agent, signal, headers: { Accept: 'application/vnd.corral.log' } });
  onOpen?.();
  const reader = response.body.getReader();
  const parts = [];
  let have = 0, began = performance.now(), next = offset;
  // A machine that slept, or moved to another network, has a connection on which nothing
  // comes any more, and is told of no error. So the gateway is asked now and then.
  let waits = 0; // since when for output; 0: it does not
  const watch = follow && setInterval(async () => {
    const since = waits;
    if (!since || Date.now() - since < quiet / 2) return;
    const stat = await get(sessionPath(session) + '/log/stat', { agent: session.agent, signal }).catch(() => null);
    if (stat?.size > next) await sleep(500);
    if (waits === since && (!stat || stat.size > next)) reader.cancel().catch(() => {});
  }, quiet);
  // take returns the next n bytes; they are copied only where they came in several parts.
  const take = async (n) => {
    while (have < n) {
      waits = Date.now();
      const { value, done } = await reader.read();
      waits = 0;
      if (done) throw new Fault('The log broke off.');
      parts.push(value);
      have += value.length;
    }
    have -= n;
    if (parts[0].length < n) {
      const joined = new Uint8Array(n);
      for (let at = 0; at < n;) {
        const part = parts.shift(), used = part.subarray(0, n - at);
        joined.set(used, at);
        at += used.length;
        if (used.length < part.length) parts.unshift(part.subarray(used.length));
      }
      return joined;
    }
    const taken = parts[0].subarray(0, n);
    parts[0] = parts[0].subarray(n);
    if (!parts[0].length) parts.shift();
    return taken;
  };
  try {
    for (;;) {
      const head = await take(header);
      const view = new DataView(head.buffer, head.byteOffset);
      const stream = head[0], at = Number(view.getBigUint64(1)), n = view.getUint32(9);
      if (n > maxFrame) throw new Fault('The log is malformed.');
      if (stream in ends) return { offset: at, end: ends[stream] === 'end' };
      const data = await take(n);
      next = at + n;
      await onFrame({ stream, offset: at, data });
      if (performance.now() - began > atOnce) {
        await sleep(0);
        began = performance.now();
      }
    }
  } finally {
    clearInterval(watch);
    reader.cancel().catch(() => {});
  }
}

export const sessionPath = (s) => '/v1/sessions/' + encodeURIComponent(s.sessionId);

// saveAs has the browser keep a response's body as a file.
export async function saveAs(response, name) {
  const url = URL.createObjectURL(await response.blob());
  const a = document.createElement('a');
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
