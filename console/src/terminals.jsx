// Terminals. The screen is what the session's log makes of it, from a byte on: a page that
// is loaded again reads it from the start, and after a cut it goes on where it was.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { backoff, get, loaded, log, may, post, request, sessionPath, sleep } from './api.js';
import { useLive } from './live.js';
import { exitText, plain, tone } from './format.js';
import { linkTo, sessionURL } from './router.js';
import { begin, byStart, useSessions, Where } from './sessions.jsx';
import { Act, Badge, Code, confirm, Empty, Field, Loaded, Page, pageTitle, Problem, show, Table, Text, Time, toast } from './ui.jsx';
import { T } from './text.js';

// shellText is a shell with a prompt, in images that have bash and in those that do not.
const shellText = 'if command -v bash >/dev/null; then exec bash -l; else exec sh -l; fi';

export const openShell = (o) => begin({ tty: { rows: 30, cols: 100 }, ...(!o.command && { command: shellText, description: T.terminals.shell }), ...o }, 'terminals');

// useTerminals are the terminals that run; undefined until they are known.
const useTerminals = () => {
  const live = useSessions();
  return { ...live, data: live.data?.sessions.filter((s) => s.tty && s.status === 'running').sort(byStart) };
};

const nameOf = (s) => plain(s.description || s.command, 120);
const placeOf = (s) => s.node || s.host;
const NewButton = () => <button onClick={() => show((close) => <New close={close} />)}>{T.terminals.new}</button>;

export function Terminals() {
  return (
    <Page title={T.screens.terminals} actions={<NewButton />}>
      <Loaded of={useTerminals()}>{(mine) => (mine.length === 0 ? <Empty title={T.terminals.empty} hint={T.terminals.emptyHint} /> : (
        <Table
          label={T.screens.terminals}
          columns={[[T.common.command, 'wide'], [T.common.agent], [T.common.host], [T.sessions.began, 'num']]}
          rows={mine.map((s) => ({ key: s.agent + s.sessionId, cells: [<a class="mono clip" {...linkTo(sessionURL(s, 'terminals'))}><Text>{nameOf(s)}</Text></a>, <Text>{s.agent}</Text>, <Text>{placeOf(s)}</Text>, <Time at={s.startedAt} />] }))}
        />
      ))}</Loaded>
    </Page>
  );
}

function New({ close }) {
  const [error, set] = useState();
  return (
    <form onSubmit={async (e) => {
      e.preventDefault();
      const f = Object.fromEntries(new FormData(e.target));
      try {
        await openShell({ agent: f.agent.trim(), host: f.host, ...(f.command.trim() && { command: f.command }) });
        close();
      } catch (err) {
        set(err);
      }
    }}>
      <h2>{T.terminals.new}</h2>
      <Field label={T.common.agent}><input name="agent" placeholder="main" spellcheck={false} autofocus /></Field>
      <Where />
      <Field label={T.terminals.command}><input name="command" class="mono" placeholder={T.terminals.shell} spellcheck={false} /></Field>
      <Problem error={error} />
      <div class="actions end"><button type="button" onClick={() => close()}>{T.common.cancel}</button><button class="primary">{T.terminals.open}</button></div>
    </form>
  );
}

const themes = {
  dark: { background: '#16181c', foreground: '#d8dbe0', cursor: '#d8dbe0', selectionBackground: '#3a4a66' },
  light: { background: '#ffffff', foreground: '#1c1f24', cursor: '#1c1f24', selectionBackground: '#c9dafa', black: '#1c1f24', white: '#6b7280', yellow: '#8a6100', green: '#1a7f37', cyan: '#0b7285', brightYellow: '#7a5600', brightGreen: '#166b2e', brightCyan: '#0a6172', brightWhite: '#4b5563' },
};
const dark = () => {
  const t = document.documentElement.dataset.theme;
  return t === 'dark' || (t !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
};

const clipMost = 100_000; // characters of base64 that a program may ask to put on the clipboard

const replayMost = 8 << 20; // bytes of a log from which a screen is brought back
const piece = 16 << 10; // bytes that are drawn at a time, so that the page answers meanwhile
const highWater = 512 << 10; // bytes that may wait to be drawn; the log is read no further then

// tabName tells this tab from others to the gateway, also after the page is loaded again.
function tabName() {
  const random = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, '0')).join('');
  const name = sessionStorage.getItem('tab') || random();
  sessionStorage.setItem('tab', name);
  return name;
}

// attach has a terminal show a session from its log, until signal ends it.
// writer is who types; the gateway lets one at a time.
async function attach(term, s, { signal, writer, onState, isReadOnly, onHeld, onClip }) {
  let offset = 0, replayUntil = 0;
  let undrawn = 0, drained = () => {};
  // What is typed is sent in order, one request at a time.
  let typed = [], sending = false, replaying = true;
  const path = sessionPath(s), of = { agent: s.agent };
  const write = (body, q = '') => request('POST', `${path}/stdin?writer=${writer}${q}`, { ...of, body, type: 'application/octet-stream', signal });
  const held = (err) => err.code === 'conflict' && (onHeld(err), true);
  const send = async () => {
    if (sending) return;
    sending = true;
    while (typed.length && !signal.aborted) {
      const body = new Blob(typed);
      typed = [];
      try {
        await write(body);
      } catch (err) {
        typed = [];
        if (signal.aborted) break;
        if (!held(err)) toast(err.status ? err.message : T.terminals.inputLost, err.hint, true);
      }
    }
    sending = false;
  };
  let connected = false;
  const input = (data) => {
    // While it is brought back the emulator answers questions that were answered long ago.
    if (replaying || !connected || isReadOnly()) return;
    typed.push(data);
    send();
  };
  term.onData(input);
  term.onBinary((data) => input(Uint8Array.from(data, (c) => c.charCodeAt(0))));
  let claimed = false;
  // The first look is also the first claim: where another types, this one looks on.
  const claim = async () => {
    if (claimed || isReadOnly()) return;
    claimed = true;
    await write('').catch((err) => { if (!signal.aborted) held(err); });
  };
  let size = '';
  const resize = () => {
    const { rows, cols } = term, now = rows + 'x' + cols;
    if (now === size || isReadOnly() || !connected) return;
    size = now;
    request('POST', path + '/resize', { ...of, body: { rows, cols }, signal }).catch(() => { size = ''; });
  };
  term.onResize(resize);
  // OSC 52: a program asks for the clipboard. It may not read it, and somebody is asked before it is written.
  term.parser.registerOscHandler(52, (data) => {
    const [, code = ''] = data.split(';');
    if (replaying || isReadOnly() || code.length > clipMost || !/^[A-Za-z0-9+/]+=*$/.test(code)) return true;
    const text = new TextDecoder().decode(Uint8Array.from(atob(code.replace(/=+$/, '')), (c) => c.charCodeAt(0)));
    onClip(text);
    return true;
  });
  for (let wait = 300, first = true; !signal.aborted;) {
    try {
      if (first) {
        const stat = await get(path + '/log/stat', { ...of, signal });
        replayUntil = stat.size ?? 0;
        offset = Math.max(0, replayUntil - replayMost);
        replaying = replayUntil > 0;
        if (replaying) onState('replay');
        first = false;
      }
      const { end } = await log(s, {
        offset, signal,
        async onFrame(f) {
          offset = f.offset;
          for (let i = 0; i < f.data.length; i += piece) {
            const part = f.data.subarray(i, i + piece), n = part.length, next = (offset += n);
            undrawn += n;
            term.write(part, () => {
              undrawn -= n;
              if (undrawn < highWater / 2) drained();
              if (replaying && next >= replayUntil) {
                replaying = false;
                onState('on');
              }
            });
          }
          if (undrawn > highWater) await new Promise((resolve) => { drained = resolve; });
        },
        onOpen() {
          connected = true;
          wait = 300;
          if (!replaying) onState('on');
          size = '';
          claim().then(resize);
        },
      });
      if (end) {
        onState('ended');
        return;
      }
    } catch (err) {
      if (signal.aborted) return;
      if (err.status >= 400 && err.status < 500 && err.status !== 429) {
        onState('error', err);
        return;
      }
      wait = backoff(wait);
    }
    connected = false;
    onState('lost');
    await sleep(wait, signal);
  }
}

// askClip asks whether a program may write a text to the clipboard.
let asking = false;
async function askClip(text) {
  if (asking) return;
  asking = true;
  const question = <>{T.terminals.clip}<Code block>{text}</Code></>;
  if (await confirm(question, T.terminals.clipDo, '', true)) await copy(text);
  asking = false;
}

const copy = (text) => navigator.clipboard?.writeText(text).catch((err) => toast(err.message, '', true));

// Tabs are the terminals that run, to go from one to the other.
function Tabs({ id }) {
  const { data } = useTerminals();
  return data?.length > 1 && (
    <nav class="tabs" aria-label={T.terminals.list}>
      {data.slice(0, 20).reverse().map((s) => <a key={s.sessionId} {...linkTo(sessionURL(s, 'terminals'))} title={s.sessionId} aria-current={s.sessionId === id ? 'page' : undefined}><Text>{`${nameOf(s)} · ${placeOf(s)}`}</Text></a>)}
    </nav>
  );
}

export function Terminal({ id, query }) {
  const agent = query.get('agent') || 'main';
  const one = useLive(sessionPath({ sessionId: id }), { agent, every: 5000 });
  const box = useRef(), made = useRef();
  const [state, setState] = useState('');
  const [error, setError] = useState();
  const readOnly = useRef(false);
  const [only, setOnly] = useState(false);
  const [heldBy, setHeld] = useState('');
  const writer = useMemo(tabName, []);
  const look = (on) => { readOnly.current = on; setOnly(on); if (!on) setHeld(''); };
  const takeOver = async () => {
    await request('POST', `${sessionPath({ sessionId: id })}/stdin?writer=${writer}&take=true`, { agent, body: '', type: 'application/octet-stream' });
    look(false);
    const t = made.current;
    t?.fit.fit();
    if (t) await post(`${sessionPath({ sessionId: id })}/resize`, { rows: t.term.rows, cols: t.term.cols }, { agent });
    t?.term.focus();
  };
  const known = !!one.data;
  useEffect(() => {
    if (!known) return;
    const stop = new AbortController();
    let observer;
    (async () => {
      const { make } = await loaded(import('./xterm.js'));
      if (stop.signal.aborted) return;
      const t = make(box.current, { theme: dark() ? themes.dark : themes.light });
      made.current = t;
      box.current.xterm = t.term; // for tests
      t.fit.fit();
      observer = new ResizeObserver(() => t.fit.fit());
      observer.observe(box.current);
      box.current.addEventListener('mouseup', () => { if (t.term.hasSelection()) copy(t.term.getSelection()); });
      t.term.onTitleChange((title) => pageTitle.set(plain(title, 60)));
      t.term.focus();
      await attach(t.term, { sessionId: id, agent }, { signal: stop.signal, writer, isReadOnly: () => readOnly.current, onHeld: (err) => { look(true); setHeld(err.message); }, onClip: askClip, onState: (s, err) => { setState(s); setError(err); } });
    })();
    return () => {
      stop.abort();
      observer?.disconnect();
      made.current?.dispose();
      made.current = undefined;
    };
  }, [known, id, agent]);
  const s = one.data;
  return (
    <Page
      title={plain(s ? nameOf(s) : id, 40)} back="terminals"
      sub={s && <Badge tone={tone(s)}>{exitText(s)}</Badge>}
      actions={
        <>
          <input type="search" aria-label={T.terminals.find} placeholder={T.terminals.find} onKeyDown={(e) => { if (e.key === 'Enter') made.current?.search[e.shiftKey ? 'findPrevious' : 'findNext'](e.target.value); }} />
          {heldBy ? <Act tone="primary" does={takeOver}>{T.terminals.takeOver}</Act>
            : <label class="check"><input type="checkbox" checked={only} onChange={(e) => look(e.target.checked)} /> {T.terminals.readOnly}</label>}
          {s && <a class="button" {...linkTo(sessionURL(s))}>{T.terminals.session}</a>}
          {s?.status === 'running' && <Act tone="danger" ask={T.sessions.stopAsk} does={() => post(`${sessionPath({ sessionId: id })}/kill`, {}, { agent })}>{T.sessions.stop}</Act>}
          <NewButton />
        </>
      }
    >
      {one.error?.status === 404 ? <Empty title={T.sessions.gone} /> : <Problem error={one.error || error} />}
      <Tabs id={id} />
      {heldBy && <p role="status"><Badge tone="warn">{T.terminals.readOnly}</Badge> <Text>{heldBy}</Text></p>}
      {known && <div class="screen" data-state={state} ref={box} role="application" aria-label={T.terminals.screen} />}
      <p class="dim" role="status">{state === 'lost' ? T.terminals.lost : state === 'replay' ? T.terminals.replay : state === 'ended' && s ? T.terminals.ended(exitText(s)) : ' '}</p>
    </Page>
  );
}
