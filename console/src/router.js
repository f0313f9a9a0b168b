// The URL says what is shown.
import { useEffect, useState } from 'preact/hooks';
import { cell, root } from './api.js';

const read = () => ({ path: location.pathname.startsWith(root) ? location.pathname.slice(root.length).replace(/\/$/, '') : '', query: new URLSearchParams(location.search) });

export const place = cell(read());
addEventListener('popstate', () => place.set(read()));

export function go(to, { replace = false } = {}) {
  if (root + to === location.pathname + location.search) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', root + to);
  place.set(read());
  if (!replace) scrollTo(0, 0);
}

export function useCell(c) {
  const [v, set] = useState(c.get());
  useEffect(() => {
    set(c.get());
    return c.listen(set);
  }, [c]);
  return v;
}

export const usePlace = () => useCell(place);

// href and onClick of a link within the console. Other clicks are the browser's.
export const linkTo = (to) => ({
  href: root + to,
  onClick(e) {
    if (e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
    e.preventDefault();
    go(to);
  },
});

export const sessionURL = (s, kind = 'sessions') => `${kind}/${encodeURIComponent(s.sessionId)}?agent=${encodeURIComponent(s.agent)}`;
export const sandboxURL = (name, part = '') => `sandboxes/${encodeURIComponent(name)}${part && '?part=' + part}`;
export const approvalURL = (a) => `approvals/${encodeURIComponent(a.approvalId)}`;
