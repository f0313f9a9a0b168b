// Sessions: all of them in one table, and each with its output.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { backoff, call, log, may, mayAll, post, request, saveAs, sessionPath, sleep } from './api.js';
import { nudge, useLive, useNow } from './live.js';
import { ago, bytes, duration, exitText, failed, moment, plain, tone } from './format.js';
import { Ansi, lineText, maxLines } from './ansi.js';
import { approvalURL, go, linkTo, sessionURL, usePlace } from './router.js';
import { Act, Badge, Code, Empty, Fact, Facts, Field, Loaded, Page, Problem, Rows, Section, Select, show, Text, Time, toast } from './ui.jsx';
import { T } from './text.js';

export const allSessions = '/v1/sessions?agent=*';
// Many are asked for less often.
const often = (data) => (data?.sessions.length > 2000 ? 15_000 : 3000);
export const useSessions = () => useLive(allSessions, { every: often });

export const byStart = (a, b) => (a.startedAt < b.startedAt ? 1 : a.startedAt > b.startedAt ? -1 : 0);
const took = (s, now) => (s.endedAt ? Date.parse(s.endedAt) : now) - Date.parse(s.startedAt);
const hostOf = (s) => (s.node ? `node ${s.node}` : s.host || '');

const states = ['', 'running', 'completed', 'failed', 'unknown'];

export function Sessions() {
  const live = useSessions();
  const { query } = usePlace();
  const now = useNow(1000);
  const filter = Object.fromEntries(['text', 'state', 'host', 'agent'].map((k) => [k, query.get(k) || '']));
  const setFilter = (k, v) => {
    const q = new URLSearchParams(query);
    if (v) q.set(k, v); else q.delete(k);
    go('sessions' + (q.size ? '?' + q : ''), { replace: true });
  };
  const all = useMemo(() => (live.data ? live.data.sessions.slice().sort(byStart) : []), [live.data]);
  const shown = useMemo(() => {
    const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
    return all.filter((s) => (!filter.state || (filter.state === 'failed' ? failed(s) : s.status === filter.state)) && (!filter.host || hostOf(s) === filter.host) && (!filter.agent || s.agent === filter.agent)
      && (!words.length || words.every((w) => `${s.sessionId} ${s.name} ${s.command} ${s.description || ''} ${s.cwd}`.toLowerCase().includes(w))));
  }, [all, filter.text, filter.state, filter.host, filter.agent]);
  const agents = useMemo(() => [...new Set(all.map((s) => s.agent))].sort(), [all]);
  const hosts = useMemo(() => [...new Set(all.map(hostOf))].filter(Boolean).sort(), [all]);
  return (
    <Page title={T.screens.sessions} sub={live.data && <span class="dim num" data-count>{T.sessions.count(shown.length, all.length)}</span>} actions={may('run') && <StartButton />}>
      <div class="filters">
        <input type="search" aria-label={T.sessions.filter} placeholder={T.sessions.filter} value={filter.text} onInput={(e) => setFilter('text', e.target.value)} />
        <Select label={T.common.state} value={filter.state} options={states.map((s) => [s, s || T.sessions.anyState])} onChange={(v) => setFilter('state', v)} />
        <Select label={T.common.host} value={filter.host} options={[['', T.sessions.anyHost], ...hosts]} onChange={(v) => setFilter('host', v)} />
        <Select label={T.common.agent} value={filter.agent} options={[['', T.sessions.anyAgent], ...agents]} onChange={(v) => setFilter('agent', v)} />
      </div>
      <Loaded of={live}>{() => (shown.length === 0 ? <Empty title={all.length ? T.sessions.noneMatch : T.sessions.empty} hint={!all.length && T.sessions.emptyHint} /> : (
        <Rows
          class="sessions" label={T.screens.sessions} count={shown.length} height={44}
          row={(i, style) => {
            const s = shown[i];
            return (
              <div role="listitem" class="session" key={s.agent + '/' + s.sessionId} style={style}>
                <a {...linkTo(sessionURL(s))} data-row>
                  <Badge tone={tone(s)}>{exitText(s)}</Badge>
                  <span class="mono clip"><Text>{plain(s.command, 200)}</Text></span>
                  <span class="clip dim"><Text>{s.agent}</Text></span>
                  <span class="clip dim">{hostOf(s)}{s.waitingForInput && ' · ' + T.sessions.waiting}</span>
                  <span class="dim num" title={moment(s.startedAt)}>{ago(s.startedAt, now)}</span>
                  <span class="dim num">{duration(took(s, now))}</span>
                  <span class="dim num">{bytes(s.outputBytes)}</span>
                </a>
              </div>
            );
          }}
        />
      ))}</Loaded>
    </Page>
  );
}

// hostChoices are where a command may go, besides a node by its name.
export const hostChoices = [['', T.sessions.asConfigured], 'sandbox', ['gateway', T.sessions.here], ['node', T.sessions.itsNode]];

// Where is a choice of that: a field host of a form.
export function Where() {
  const { data } = useLive('/v1/nodes', { every: 10_000 });
  const nodes = (data?.nodes || []).filter((n) => n.state === 'online').map((n) => ['node:' + n.name, T.sessions.onNode(n.name)]);
  return <Field label={T.terminals.onHost}><Select name="host" onChange={() => {}} options={[...hostChoices.filter((h) => h[0] !== 'node' || nodes.length), ...nodes]} /></Field>;
}

// begin starts a command and goes to it, or to the approval that it needs.
export async function begin({ agent, session, host = '', ...command }, kind = 'sessions') {
  const [place, node] = host.split(/:(.*)/);
  try {
    const s = await post('/v1/sessions', { ...command, ...(place && { host: place }), ...(node && { node }) }, { agent, session });
    go(sessionURL(s, kind));
  } catch (err) {
    if (err.code !== 'approval-pending') throw err;
    toast(T.approvals.sent);
    go(approvalURL(err.details));
  }
  nudge();
}

export const StartButton = () => <button onClick={() => show((close) => <Start close={close} />)}>{T.sessions.start}</button>;

function Start({ close }) {
  const [error, set] = useState();
  return (
    <form onSubmit={async (e) => {
      e.preventDefault();
      const f = Object.fromEntries(new FormData(e.target));
      try {
        await begin({ command: f.command, host: f.host, agent: f.agent.trim(), ...(f.stdin && { stdin: true }) });
        close();
      } catch (err) {
        set(err);
      }
    }}>
      <h2>{T.sessions.startTitle}</h2>
      <Field label={T.sessions.newCommand}><input name="command" class="mono" required autofocus spellcheck={false} /></Field>
      <Field label={T.common.agent}><input name="agent" placeholder="main" spellcheck={false} /></Field>
      <Where />
      <label class="check"><input type="checkbox" name="stdin" /> {T.sessions.withInput}</label>
      <Problem error={error} />
      <div class="actions end"><button type="button" onClick={() => close()}>{T.common.cancel}</button><button class="primary">{T.sessions.start}</button></div>
    </form>
  );
}

const signals = ['INT', 'TERM', 'HUP', 'QUIT', 'USR1', 'USR2', 'STOP', 'CONT', 'KILL'];

export function Session({ id, query }) {
  const agent = query.get('agent') || 'main';
  const path = sessionPath({ sessionId: id });
  const one = useLive(path, { agent, every: 2000 });
  const now = useNow(1000);
  const s = one.data;
  const act = (what, body) => async () => { await post(`${path}/${what}`, body, { agent }); nudge(); };
  const mayRun = may('run');
  return (
    <Page
      title={s ? plain(s.name, 60) : plain(id, 60)} back="sessions"
      sub={s && <Badge tone={tone(s)}>{exitText(s)}</Badge>}
      actions={s && (
        <>
          {s.tty && mayRun && <a class="button" {...linkTo(sessionURL(s, 'terminals'))}>{T.sessions.terminal}</a>}
          {mayRun && s.status === 'running' && <Select label={T.sessions.signal} value="" options={[['', T.sessions.signal + '…'], ...signals]} onChange={(sig) => sig && act('signal', { signal: sig })().catch((e) => toast(e.message, e.hint, true))} />}
          {mayRun && s.status === 'running' && <Act tone="danger" ask={T.sessions.stopAsk} does={act('kill')}>{T.sessions.stop}</Act>}
          <Act does={async () => saveAs(await request('GET', path + '/output', { agent }), `${id}.log`)}>{T.sessions.download}</Act>
          {mayRun && s.status !== 'running' && <Act tone="danger" ask={T.sessions.removeAsk} does={async () => { await call('DELETE', path, { agent }); go('sessions'); }}>{T.sessions.remove}</Act>}
        </>
      )}
    >
      {one.error?.status === 404 ? <Empty title={T.sessions.gone} /> : (
        <Loaded of={one}>{() => (
          <>
            <Code block>{s.command}</Code>
            <Facts>
              {s.description && <Fact name={T.approvals.says}>“<Text>{s.description}</Text>”</Fact>}
              <Fact name={T.common.agent}><Text>{s.agent}</Text></Fact>
              <Fact name={T.common.host}><Text>{hostOf(s)}</Text>{s.sandboxed && s.host !== 'sandbox' && ` (${T.sessions.sandboxed})`}</Fact>
              <Fact name={T.common.directory}><Code>{s.cwd}</Code></Fact>
              <Fact name={T.sessions.began}>{moment(s.startedAt)}</Fact>
              <Fact name={T.sessions.took}>{duration(took(s, now))}</Fact>
              {s.pid > 0 && <Fact name={T.sessions.pid}>{s.pid}</Fact>}
              {s.key && <Fact name={T.sessions.key}><Text>{s.key}</Text></Fact>}
              {(s.detail || s.notice) && <Fact name={T.sessions.note}><Text>{[s.detail, s.notice].filter(Boolean).join(' ')}</Text></Fact>}
              {s.warnings?.length > 0 && <Fact name={T.policy.warnings}><Text>{s.warnings.join(' ')}</Text></Fact>}
              {s.unreachable && <Fact name={T.common.state}><Badge tone="warn">{T.sessions.unreachable}</Badge></Fact>}
            </Facts>
            <Output key={s.startedAt} session={s} wanted={query.get('offset')} />
            {mayRun && s.status === 'running' && s.stdin && !s.tty && <Input session={s} />}
          </>
        )}</Loaded>
      )}
    </Page>
  );
}

function Input({ session }) {
  const path = sessionPath(session) + '/stdin';
  const ref = useRef();
  const send = async (body, q = '') => request('POST', path + q, { agent: session.agent, body, type: 'application/octet-stream' });
  return (
    <form class="input" onSubmit={async (e) => {
      e.preventDefault();
      try {
        await send(ref.current.value + '\n');
        ref.current.value = '';
      } catch (err) {
        toast(err.message, err.hint, true);
      }
    }}>
      <input ref={ref} class="mono" aria-label={T.sessions.input} placeholder={T.sessions.input} spellcheck={false} autocomplete="off" />
      <button>{T.sessions.send}</button>
      <Act does={() => send('', '?eof=true')}>{T.sessions.eof}</Act>
    </form>
  );
}

const shownAtFirst = 2 << 20; // bytes of the end of a long output

// useLog follows a session's output, from an offset.
function useLog(session, from) {
  const [state, set] = useState({ version: 0 });
  const ref = useRef();
  useEffect(() => {
    const stop = new AbortController();
    const ansi = new Ansi();
    ref.current = ansi;
    let offset = from, frame = 0;
    const draw = () => {
      frame ||= setTimeout(() => {
        frame = 0;
        if (!stop.signal.aborted) set((s) => ({ ...s, version: s.version + 1 }));
      }, 50);
    };
    (async () => {
      for (let wait = 500; !stop.signal.aborted;) {
        try {
          const { end } = await log(session, {
            offset, signal: stop.signal,
            onFrame(f) {
              wait = 500;
              if (f.offset > offset) ansi.note(T.sessions.gap(offset, f.offset, bytes(f.offset - offset)));
              ansi.write(f.data, f.stream);
              offset = f.offset + f.data.length;
              draw();
            },
          });
          if (end) {
            if (!stop.signal.aborted) set((s) => ({ version: s.version + 1, ended: true }));
            return;
          }
        } catch (error) {
          if (stop.signal.aborted) return;
          if (error.status >= 400 && error.status < 500 && error.status !== 429) {
            set((s) => ({ version: s.version + 1, error }));
            return;
          }
          wait = backoff(wait);
        }
        await sleep(wait, stop.signal);
      }
    })();
    return () => {
      stop.abort();
      clearTimeout(frame);
    };
  }, [session.sessionId, session.agent, from]);
  return [ref.current, state];
}

export const Line = ({ line, find }) => line.map((p) => (
  <span class={p.class || undefined} style={p.color || p.background ? { color: p.color, background: p.background } : undefined}>
    {find && p.text.toLowerCase().includes(find) ? <Marked text={p.text} find={find} /> : p.text}
  </span>
));

function Marked({ text, find }) {
  const out = [], low = text.toLowerCase();
  let at = 0;
  for (let i = low.indexOf(find); i >= 0 && out.length < 200; i = low.indexOf(find, at)) {
    out.push(text.slice(at, i), <mark>{text.slice(i, i + find.length)}</mark>);
    at = i + find.length;
  }
  out.push(text.slice(at));
  return out;
}

function Output({ session, wanted }) {
  const [from, setFrom] = useState(wanted ? Math.max(0, Math.floor(Number(wanted)) || 0) : Math.max(0, session.outputBytes - shownAtFirst));
  const [ansi, { ended, error }] = useLog(session, from);
  const [follow, setFollow] = useState(true);
  const [text, setText] = useState('');
  const [match, setMatch] = useState(0);
  const find = text.toLowerCase();
  const lines = ansi?.lines || [];
  const count = lines.length && !lines[lines.length - 1].length ? lines.length - 1 : lines.length;
  const matches = useMemo(() => {
    if (!find) return [];
    const found = [];
    for (let i = 0; i < count && found.length < maxLines; i++) if (lineText(lines[i]).toLowerCase().includes(find)) found.push(i);
    return found;
  }, [find, count]);
  const at = matches.length ? matches[Math.min(match, matches.length - 1)] : -1;
  const step = (d) => { setFollow(false); setMatch((m) => (Math.min(m, matches.length - 1) + d + matches.length) % matches.length); };
  return (
    <Section
      title={T.sessions.output}
      actions={
        <>
          <input type="search" aria-label={T.sessions.find} placeholder={T.sessions.find} value={text} onInput={(e) => { setText(e.target.value); setMatch(0); setFollow(false); }}
            onKeyDown={(e) => { if (e.key === 'Enter' && matches.length) { e.preventDefault(); step(e.shiftKey ? -1 : 1); } }} />
          {find && <span class="dim num" data-matches>{T.sessions.matches(matches.length, Math.min(match, matches.length - 1) + 1)}</span>}
          <form class="group" onSubmit={(e) => { e.preventDefault(); setFrom(Math.max(0, Math.floor(Number(new FormData(e.target).get('offset'))) || 0)); setFollow(false); }}>
            <input name="offset" class="short num" inputMode="numeric" aria-label={T.sessions.offset} placeholder={T.sessions.offset} />
            <button>{T.sessions.go}</button>
          </form>
          <label class="check"><input type="checkbox" checked={follow} onChange={(e) => setFollow(e.target.checked)} /> {T.sessions.follow}</label>
        </>
      }
    >
      {from > 0 && <p class="dim">{T.sessions.skipped(bytes(from))} <button class="plain link" onClick={() => { setFollow(false); setFrom(0); }}>{T.sessions.earlier}</button></p>}
      <Problem error={error} />
      {count === 0 ? <p class="dim">{ended ? T.sessions.noOutput : T.sessions.noOutputYet}</p> : (
        <Rows
          key={from} class="output" role="log" label={T.sessions.output} count={count} height={18} follow={follow && !find} at={at}
          row={(i, style) => <div key={i + (ansi.first || 0)} class={'line' + (i === at ? ' at' : '')} style={style}><Line line={lines[i]} find={find} /></div>}
        />
      )}
      <p class="dim num">{T.sessions.bytes(bytes(session.outputBytes))}{session.omittedBytes > 0 && ` · ${T.sessions.omitted(bytes(session.omittedBytes))}`}{ended && ' · ' + T.sessions.ended(exitText(session))}</p>
    </Section>
  );
}
