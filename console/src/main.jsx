// The console: who is signed in, and which screen the URL asks for.
import { render } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get, may, mayAll, online, resume, self, signIn, signOut } from './api.js';
import { nudge, pending, usePending } from './live.js';
import { plain } from './format.js';
import { approvalURL, go, linkTo, sandboxURL, sessionURL, useCell, usePlace } from './router.js';
import { Copyable, Dialogs, Empty, Loading, Page, pageTitle, Problem, Text, Toasts } from './ui.jsx';
import { T } from './text.js';
import { Overview } from './overview.jsx';
import { Approval, Approvals, useNotices } from './approvals.jsx';
import { byStart, Session, Sessions } from './sessions.jsx';
import { Events } from './events.jsx';
import { Terminal, Terminals } from './terminals.jsx';
import { Sandbox, Sandboxes } from './sandboxes.jsx';
import { Node, Nodes } from './nodes.jsx';
import { Policy } from './policy.jsx';
import { Configuration } from './config.jsx';
import { Keys } from './keys.jsx';

// A screen is shown to those who may use it: [of a list, of one thing, whether one may].
const read = () => may('read');
const screens = {
  '': [Overview, null, read],
  approvals: [Approvals, Approval, read],
  sessions: [Sessions, Session, read],
  events: [Events, null, read],
  terminals: [Terminals, Terminal, () => may('run')],
  sandboxes: [Sandboxes, Sandbox, read],
  nodes: [Nodes, Node, read],
  policy: [Policy, null, read],
  config: [Configuration, null, () => mayAll('operate')],
  keys: [Keys, null, () => mayAll('keys')],
};
const open = () => Object.keys(screens).filter((name) => screens[name][2]());
const title = (name) => T.screens[name || 'overview'];

function Missing() {
  return <Page title={T.common.missing}><p><a {...linkTo('')}>{T.common.home}</a></p></Page>;
}

function Screen() {
  const { path, query } = usePlace();
  const [name, ...rest] = path.split('/');
  const screen = screens[name];
  if (!screen || !screen[2]() || rest.length > 1 || (rest[0] && !screen[1])) return <Missing />;
  let id;
  try {
    id = rest[0] && decodeURIComponent(rest[0]);
  } catch {
    return <Missing />;
  }
  const Shown = id ? screen[1] : screen[0];
  return <Shown key={path} id={id} query={query} />;
}

const themes = ['auto', 'light', 'dark'];
const theme = () => localStorage.getItem('corral.theme') || 'auto';
function setTheme(to) {
  localStorage.setItem('corral.theme', to);
  document.documentElement.dataset.theme = to;
}

function Theme() {
  const [now, set] = useState(theme());
  const next = themes[(themes.indexOf(now) + 1) % themes.length];
  return <button class="plain" onClick={() => { setTheme(next); set(next); }}>{T.shell.theme[now]}</button>;
}

function Shell() {
  usePending();
  useNotices();
  const waiting = useCell(pending).length;
  const isOnline = useCell(online);
  const { path } = usePlace();
  const me = useCell(self);
  const shown = useCell(pageTitle);
  const [menu, setMenu] = useState(false);
  const [palette, setPalette] = useState(false);
  const here = path.split('/')[0];
  useEffect(() => {
    const page = plain(shown || title(here) || T.common.missing);
    document.title = `${waiting ? `(${waiting}) ` : ''}${page} · ${T.name}`;
  }, [shown, waiting, here]);
  useEffect(() => setMenu(false), [path]);
  useKeys(setPalette);
  return (
    <div class="shell">
      <a class="skip" href="#content" onClick={(e) => { e.preventDefault(); document.getElementById('content').focus(); }}>{T.common.skip}</a>
      <header class="top">
        <button class="plain menu" aria-expanded={menu} aria-controls="nav" onClick={() => setMenu(!menu)}>{T.common.menu}</button>
        <a class="name" {...linkTo('')}>{T.name}</a>
        <button class="palette" onClick={() => setPalette(true)}>{T.shell.palette} <kbd>Ctrl K</kbd></button>
        {!isOnline && <span class="badge warn" role="status" title={T.shell.reconnectingLong}>{T.shell.reconnecting}</span>}
        <span class="who dim"><Text>{T.shell.signedInAs(me.name, me.role)}</Text></span>
      </header>
      <nav id="nav" class={menu ? 'open' : ''} aria-label={T.common.menu}>
        {open().map((name) => (
          <a key={name} {...linkTo(name)} aria-current={name === here ? 'page' : undefined}>
            {title(name)}
            {name === 'approvals' && waiting > 0 && <span class="count">{waiting}</span>}
          </a>
        ))}
        <div class="foot">
          <Theme />
          <button class="plain" onClick={signOut}>{T.shell.signOut}</button>
          <small class="dim">{T.shell.keys}</small>
        </div>
      </nav>
      <main id="content" tabIndex={-1}><Screen /></main>
      {palette && <Palette close={() => setPalette(false)} />}
    </div>
  );
}

const typing = (el) => el.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(el.tagName) || el.closest?.('.xterm');

// useKeys: Ctrl-K, and j and k through the rows of a list.
function useKeys(setPalette) {
  useEffect(() => {
    const onKey = (e) => {
      if ((e.ctrlKey || e.metaKey) && !e.altKey && e.key.toLowerCase() === 'k' && !e.target.closest?.('.xterm')) {
        e.preventDefault();
        setPalette((p) => !p);
        return;
      }
      if (e.ctrlKey || e.metaKey || e.altKey || typing(e.target) || document.querySelector('dialog[open]')) return;
      if (e.key !== 'j' && e.key !== 'k') return;
      const rows = [...document.querySelectorAll('main [data-row]')];
      const links = rows.map((r) => (r.matches('a') ? r : r.querySelector('a, button'))).filter(Boolean);
      if (!links.length) return;
      const at = links.findIndex((l) => l === document.activeElement);
      const to = at < 0 ? 0 : Math.max(0, Math.min(links.length - 1, at + (e.key === 'j' ? 1 : -1)));
      links[to].focus();
      e.preventDefault();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
}

// Palette finds a page or a thing by a few letters.
function Palette({ close }) {
  const [text, set] = useState('');
  const [at, setAt] = useState(0);
  const [things, setThings] = useState([]);
  const ref = useRef();
  useLayoutEffect(() => ref.current.showModal(), []);
  useEffect(() => {
    let gone = false;
    const add = (path, f) => get(path).then((data) => !gone && setThings((t) => [...t, ...f(data)])).catch(() => {});
    add('/v1/sessions?agent=*', (d) => d.sessions.sort(byStart).slice(0, 2000).map((s) => ({ kind: T.screens.sessions, text: `${s.name} ${s.sessionId}`, to: sessionURL(s) })));
    add('/v1/sandboxes', (d) => d.sandboxes.map((s) => ({ kind: T.screens.sandboxes, text: s.name, to: sandboxURL(s.name) })));
    add('/v1/nodes', (d) => d.nodes.map((n) => ({ kind: T.screens.nodes, text: n.name, to: 'nodes/' + encodeURIComponent(n.id) })));
    return () => { gone = true; };
  }, []);
  const all = useMemo(() => [
    ...open().map((name) => ({ kind: '', text: title(name), to: name })),
    ...pending.get().map((a) => ({ kind: T.screens.approvals, text: `${a.approvalSlug} ${a.command || (a.args || []).join(' ')}`, to: approvalURL(a) })),
    ...things,
  ], [things]);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter((x) => words.every((w) => `${x.kind} ${x.text}`.toLowerCase().includes(w))).slice(0, 12);
  const choose = (x) => { close(); if (x) go(x.to); };
  return (
    <dialog class="palette" ref={ref} onCancel={(e) => { e.preventDefault(); close(); }} onClick={(e) => e.target === ref.current && close()}>
      <input
        role="combobox" aria-expanded="true" aria-controls="found" aria-label={T.shell.palette} placeholder={T.shell.paletteHint} autofocus value={text}
        aria-activedescendant={found[at] && 'found-' + at}
        onInput={(e) => { set(e.target.value); setAt(0); }}
        onKeyDown={(e) => {
          if (e.key === 'ArrowDown') setAt(Math.min(at + 1, found.length - 1));
          else if (e.key === 'ArrowUp') setAt(Math.max(at - 1, 0));
          else if (e.key === 'Enter') choose(found[at]);
          else return;
          e.preventDefault();
        }}
      />
      <ul id="found" role="listbox" aria-label={T.shell.palette}>
        {found.map((x, i) => <li key={x.to + x.text} id={'found-' + i} role="option" aria-selected={i === at} onClick={() => choose(x)}><span><Text>{plain(x.text, 120)}</Text></span> <small class="dim">{x.kind}</small></li>)}
      </ul>
      {!found.length && <p class="dim">{T.shell.paletteNone}</p>}
    </dialog>
  );
}

function Login({ first }) {
  const [error, set] = useState(first);
  const [busy, setBusy] = useState(false);
  useEffect(() => { document.title = `${T.login.title} · ${T.name}`; }, []);
  return (
    <main class="login">
      <h1>{T.name}</h1>
      <form onSubmit={async (e) => {
        e.preventDefault();
        const secret = new FormData(e.target).get('key').trim();
        setBusy(true);
        try {
          await signIn(secret);
        } catch (err) {
          set(err);
          setBusy(false);
        }
      }}>
        <label class="field"><span>{T.login.key}</span><input name="key" type="password" autocomplete="current-password" required autofocus spellcheck={false} /></label>
        <Problem error={error} />
        <button class="primary" disabled={busy}>{T.login.button}</button>
      </form>
      <p class="dim">{T.login.or}</p>
      <Copyable text={T.login.orCommand} />
      <p class="dim">{T.login.hint}</p>
      <Copyable text={T.login.hintCommand} />
    </main>
  );
}

function App({ error }) {
  const me = useCell(self);
  return <>{me ? <Shell key={me.name + me.role} /> : <Login first={error} />}<Dialogs /><Toasts /></>;
}

async function start() {
  document.documentElement.dataset.theme = theme();
  const at = document.getElementById('app');
  // The secret of a link is in the fragment, which no server is sent; it goes at once.
  const link = new URLSearchParams(location.hash.slice(1)).get('link');
  let error;
  if (link) history.replaceState(null, '', location.pathname + location.search);
  render(<Loading />, at);
  // Anybody with a key could make a link with it, and have the user work under that key.
  if (link?.startsWith('corrallink_')) await signIn(link).catch((err) => { error = err; });
  else await resume();
  render(<App error={error} />, at);
}

addEventListener('online', nudge);
start();
