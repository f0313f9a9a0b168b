// What happened: the events that agents are told of, as they come.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { events, request } from './api.js';
import { useNow } from './live.js';
import { ago, moment, plain } from './format.js';
import { go, linkTo, sessionURL, usePlace } from './router.js';
import { Badge, Empty, Loading, Page, Problem, Rows, Select, Text } from './ui.jsx';
import { T } from './text.js';

const atFirst = 500; // events of before
const kept = 5000;
const path = '/v1/events?agent=*';

// useEvents follows the events, the newest first.
function useEvents() {
  const [state, set] = useState({});
  useEffect(() => {
    const stop = new AbortController();
    let list = [], timer = 0;
    const draw = () => {
      timer ||= setTimeout(() => {
        timer = 0;
        if (!stop.signal.aborted) set({ list: list.slice() });
      }, 100);
    };
    (async () => {
      try {
        const text = await (await request('GET', path + '&once', { signal: stop.signal })).text();
        const last = +(/^id: ?(\d+)/m.exec(text)?.[1] || 0);
        draw();
        await events(`${path}&after=${Math.max(0, last - atFirst)}`, stop.signal, (type, data) => {
          if (!data.seq) return; // some are not kept any more
          list.unshift(data);
          if (list.length > kept) list = list.slice(0, kept);
          draw();
        });
      } catch (error) {
        if (!stop.signal.aborted) set({ error });
      }
    })();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, []);
  return state;
}

const bad = (e) => e.status === 'failed' || e.status === 'unknown' || (e.exit && e.exit.exitCode !== 0);

export function Events() {
  const { list, error } = useEvents();
  const { query } = usePlace();
  const now = useNow(1000);
  const filter = Object.fromEntries(['text', 'type', 'agent'].map((k) => [k, query.get(k) || '']));
  const setFilter = (k, v) => {
    const q = new URLSearchParams(query);
    if (v) q.set(k, v); else q.delete(k);
    go('events' + (q.size ? '?' + q : ''), { replace: true });
  };
  const all = list || [];
  const shown = useMemo(() => {
    const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
    return all.filter((e) => (!filter.type || e.type === filter.type) && (!filter.agent || e.agent === filter.agent)
      && words.every((w) => `${e.name} ${e.text} ${e.tail || ''} ${e.sessionId}`.toLowerCase().includes(w)));
  }, [list, filter.text, filter.type, filter.agent]);
  const types = useMemo(() => [...new Set(all.map((e) => e.type))].sort(), [list]);
  const agents = useMemo(() => [...new Set(all.map((e) => e.agent))].sort(), [list]);
  return (
    <Page title={T.screens.events} sub={list && <span class="dim num" data-count>{T.sessions.count(shown.length, all.length)}</span>}>
      <div class="filters">
        <input type="search" aria-label={T.sessions.filter} placeholder={T.sessions.filter} value={filter.text} onInput={(e) => setFilter('text', e.target.value)} />
        <Select label={T.events.type} value={filter.type} options={[['', T.events.anyType], ...types]} onChange={(v) => setFilter('type', v)} />
        <Select label={T.common.agent} value={filter.agent} options={[['', T.sessions.anyAgent], ...agents]} onChange={(v) => setFilter('agent', v)} />
      </div>
      <Problem error={error} />
      {!list && !error && <Loading />}
      {list && (shown.length === 0 ? <Empty title={all.length ? T.events.noneMatch : T.events.empty} hint={!all.length && T.events.emptyHint} /> : (
        <Rows
          class="sessions events" label={T.screens.events} count={shown.length} height={44}
          row={(i, style) => {
            const e = shown[i];
            return (
              <div role="listitem" class="session" key={e.seq} style={style}>
                <a {...linkTo(sessionURL(e))} data-row>
                  <Badge tone={bad(e) ? 'bad' : e.status === 'running' ? 'run' : 'good'}>{e.type.replace(/^exec\./, '')}</Badge>
                  <span class="clip"><span class="mono"><Text>{plain(e.name, 100)}</Text></span> <span class="dim"><Text>{plain(e.text, 240)}</Text></span></span>
                  <span class="clip dim"><Text>{e.agent}</Text></span>
                  <span class="dim num" title={moment(e.time)}>{ago(e.time, now)}</span>
                </a>
              </div>
            );
          }}
        />
      ))}
    </Page>
  );
}
