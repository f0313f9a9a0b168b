// Data that stays current: it is asked for again and again while the page is seen, and
// kept when the gateway does not answer.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { backoff, cell, events, get, may, sleep } from './api.js';

// nudge says that something changed, so that nobody waits for the next time.
const nudges = new Set();
export const nudge = () => nudges.forEach((f) => f());

// useLive is what a path answers: {data, error, reload}. A path of null is not asked for.
// every is in milliseconds, or a function of the data.
export function useLive(path, { every = 4000, agent, hidden = 0 } = {}) {
  const [state, set] = useState({ path: null });
  const again = useRef(() => {});
  const pace = useRef(every); // another pace is no reason to ask again
  pace.current = every;
  useEffect(() => {
    if (!path) return;
    const stop = new AbortController();
    let wake = () => {};
    let asked = false;
    again.current = () => { asked = true; wake(); };
    const poke = () => again.current();
    nudges.add(poke);
    document.addEventListener('visibilitychange', poke);
    (async () => {
      let wait = 0, latest; // wait is longer than the pace, after failures
      const paced = () => (typeof pace.current === 'function' ? pace.current(latest) : pace.current);
      while (!stop.signal.aborted) {
        asked = false;
        if (!document.hidden || hidden || !latest) {
          try {
            const data = await get(path, { agent, signal: stop.signal });
            await sleep(0, stop.signal); // between reading a large answer and showing it the page gets its turn
            if (stop.signal.aborted) return;
            set({ path, data });
            latest = data;
            wait = 0;
          } catch (error) {
            if (stop.signal.aborted) return;
            const passes = !error.status || [429, 502, 503].includes(error.status);
            set((old) => {
              const data = passes && old.path === path ? old.data : undefined;
              return { path, data, error: error.status && !data ? error : undefined };
            });
            wait = passes ? backoff(wait || paced()) : 0;
          }
        }
        if (!asked) {
          const ms = document.hidden ? hidden || 3_600_000 : wait || paced();
          await Promise.race([sleep(ms, stop.signal), new Promise((resolve) => { wake = resolve; })]);
        }
        await sleep(60, stop.signal); // of many nudges one is enough
      }
    })();
    return () => {
      stop.abort();
      nudges.delete(poke);
      document.removeEventListener('visibilitychange', poke);
    };
  }, [path, agent]);
  const reload = useCallback(() => again.current(), []);
  return { ...(state.path === path ? state : {}), reload };
}

// The approvals that wait, for the whole console.
export const pending = cell([]);

export function usePending() {
  const { data } = useLive(may('read') ? '/v1/approvals?state=pending' : null, { every: 10_000, hidden: 15_000 });
  useEffect(() => {
    if (data) pending.set(data.approvals.slice().sort((a, b) => a.createdAt.localeCompare(b.createdAt)));
  }, [data]);
  // One connection of the few that a browser has for a host, while the page is seen.
  useEffect(() => {
    let stop;
    const follow = () => {
      stop?.abort();
      stop = undefined;
      if (document.hidden) return;
      stop = new AbortController();
      events('/v1/approvals/changes', stop.signal, nudge);
    };
    follow();
    document.addEventListener('visibilitychange', follow);
    return () => {
      stop?.abort();
      document.removeEventListener('visibilitychange', follow);
    };
  }, []);
}

// useNow is the time, every so many milliseconds.
export function useNow(every = 1000) {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const t = setInterval(() => set(Date.now()), every);
    return () => clearInterval(t);
  }, [every]);
  return now;
}
