// The parts that screens are made of.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { cell } from './api.js';
import { ago, bytes, isTime, moment, visible } from './format.js';
import { linkTo, useCell } from './router.js';
import { T } from './text.js';

// Text shows a text of somebody else's exactly.
export const Text = ({ children }) =>
  visible(String(children ?? '')).map((p) => (typeof p === 'string' ? p : <span class="unseen">{p.code}</span>));

export const Code = ({ children, block }) => (block ? <pre class="code" tabIndex={0}><Text>{children}</Text></pre> : <code><Text>{children}</Text></code>);

export const Time = ({ at }) => (isTime(at) ? <time dateTime={at} title={moment(at)}>{ago(at)}</time> : <span class="dim">{T.common.unknown}</span>);

export const Badge = ({ tone = '', children }) => <span class={'badge ' + tone}>{children}</span>;

export const Empty = ({ title, hint, command, children }) => (
  <div class="empty">
    <p>{title}</p>
    {hint && <p class="dim">{hint}</p>}
    {command && <Copyable text={command} />}
    {children && <p class="next">{children}</p>}
  </div>
);

export const Loading = () => <div class="empty dim" role="status">{T.common.loading}</div>;

export const Problem = ({ error }) => error && (
  <div class="problem" role="alert">
    <Text>{error.message}</Text>
    {error.hint && <p class="dim"><Text>{error.hint}</Text></p>}
  </div>
);

// Loaded shows what was loaded: an error, that it loads, or children with the data.
export const Loaded = ({ of, children }) => (of.error ? <Problem error={of.error} /> : of.data ? children(of.data) : <Loading />);

export function Copyable({ text }) {
  const [done, set] = useState(false);
  return (
    <div class="copyable">
      <pre tabIndex={0}><Text>{text}</Text></pre>
      <button onClick={() => navigator.clipboard?.writeText(text).then(() => { set(true); setTimeout(set, 1500, false); })}>{done ? T.common.copied : T.common.copy}</button>
    </div>
  );
}

export const Facts = ({ children }) => <dl class="facts">{children}</dl>;
export const Fact = ({ name, children }) => (children === undefined || children === null || children === '' || children === false ? null : (
  <>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </>
));

export const Section = ({ title, actions, children }) => (
  <section>
    {(title || actions) && <header><h2>{title}</h2><div class="actions">{actions}</div></header>}
    {children}
  </section>
);

export const Page = ({ title, sub, actions, back, children }) => {
  useEffect(() => { pageTitle.set(typeof title === 'string' ? title : ''); }, [title]);
  return (
    <>
      <header class="page">
        {back && <a class="backlink" {...linkTo(back)} aria-label={T.common.back}>‹</a>}
        <h1>{title}</h1>
        {sub}
        <div class="actions">{actions}</div>
      </header>
      {children}
    </>
  );
};
export const pageTitle = cell('');

// Table: columns are [title, class]; rows are {key, cells}. On a phone each cell is a line
// with the title of its column, so that nothing is beyond the edge.
export const Table = ({ columns, rows, label }) => (
  <div class="scroll" tabIndex={0} role="region" aria-label={label}>
    <table role="table">
      <thead><tr>{columns.map(([title, c]) => <th class={c}>{title || <span class="hide">{T.common.actions}</span>}</th>)}</tr></thead>
      <tbody>
        {rows.map((r) => (
          <tr key={r.key} role="row" data-row>{r.cells.map((c, i) => <td role="cell" class={columns[i][1]} data-title={columns[i][0]}>{c}</td>)}</tr>
        ))}
      </tbody>
    </table>
  </div>
);

// Act is a button that does something at the gateway, after a question if there is one:
// a text, or what a function answers.
export function Act({ children, ask, does, tone = '', small, disabled, done }) {
  const [busy, set] = useState(false);
  const act = async () => {
    try {
      const question = typeof ask === 'function' ? await ask() : ask;
      if (question && !(await confirm(question, children, tone))) return;
      set(true);
      await does();
      if (done) toast(done);
    } catch (error) {
      toast(error.message, error.hint, true);
    } finally {
      set(false);
    }
  };
  return <button type="button" class={[tone, small && 'small'].filter(Boolean).join(' ')} disabled={busy || disabled} onClick={act}>{children}</button>;
}

const toasts = cell([]);
let toastID = 0;
// A toast that is bad, or says what to do, stays longer.
export function toast(text, hint = '', bad = false, stays = bad) {
  const t = { id: ++toastID, text, hint, bad };
  toasts.set([...toasts.get().slice(-3), t]);
  setTimeout(() => toasts.set(toasts.get().filter((x) => x !== t)), stays ? 12_000 : 4000);
}
export const Toasts = () => (
  <div class="toasts" role="status" aria-live="polite">
    {useCell(toasts).map((t) => (
      <div key={t.id} class={'toast' + (t.bad ? ' bad' : '')}>
        <Text>{t.text}</Text>
        {t.hint && <p class="dim"><Text>{t.hint}</Text></p>}
        <button class="plain" aria-label={T.common.close} onClick={() => toasts.set(toasts.get().filter((x) => x !== t))}>×</button>
      </div>
    ))}
  </div>
);

// A dialog is one at a time: an element, and what closes it.
const dialog = cell(null);
export const show = (make) => new Promise((resolve) => dialog.set({ make, close: (v) => { dialog.set(null); resolve(v); } }));
// confirm asks before something is done. If it was no click that led to it, the user may be
// typing just then: a key does not allow it.
export const confirm = (question, action, tone, unasked = false) => show((close) => (
  <form onSubmit={(e) => { e.preventDefault(); close(true); }}>
    <div>{typeof question === 'string' ? <Text>{question}</Text> : question}</div>
    <div class="actions end">
      <button type="button" autofocus={unasked} onClick={() => close(false)}>{T.common.cancel}</button>
      <button class={tone || 'primary'} autofocus={!unasked}>{action}</button>
    </div>
  </form>
));

export function Dialogs() {
  const d = useCell(dialog);
  const ref = useRef();
  useLayoutEffect(() => {
    if (!d) return;
    const was = document.activeElement;
    ref.current.showModal();
    ref.current.querySelector('[autofocus], input, textarea, select, button')?.focus();
    return () => was?.focus?.();
  }, [d]);
  return d && (
    <dialog ref={ref} onCancel={(e) => { e.preventDefault(); d.close(); }} onClick={(e) => e.target === ref.current && d.close()}>
      <div class="box">{d.make(d.close)}</div>
    </dialog>
  );
}

export const Field = ({ label, hint, children }) => (
  <label class="field"><span>{label}</span>{children}{hint && <small class="dim">{hint}</small>}</label>
);

export const Select = ({ value, options, onChange, label, ...more }) => (
  <select aria-label={label} value={value} onChange={(e) => onChange(e.target.value)} {...more}>
    {options.map((o) => (Array.isArray(o) ? <option value={o[0]}>{o[1]}</option> : <option value={o}>{o}</option>))}
  </select>
);

// Rows draws those of many rows of one height that are seen. The rows are elements with a
// key; they get where they are.
export function Rows({ count, height, row, class: c = '', label, follow, at, role = 'list' }) {
  const ref = useRef();
  const [view, set] = useState({ top: 0, height: 600 });
  const measure = () => {
    const el = ref.current;
    if (el) set((v) => (v.top === el.scrollTop && v.height === el.clientHeight ? v : { top: el.scrollTop, height: el.clientHeight }));
  };
  useLayoutEffect(() => {
    measure();
    const o = new ResizeObserver(measure);
    o.observe(ref.current);
    return () => o.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (follow) ref.current.scrollTop = count * height;
  }, [count, follow]);
  useLayoutEffect(() => {
    if (at === undefined || at < 0) return;
    const el = ref.current, y = at * height;
    if (y < el.scrollTop || y + height > el.scrollTop + el.clientHeight) el.scrollTop = Math.max(0, y - el.clientHeight / 2);
  }, [at]);
  const first = Math.max(0, Math.floor(view.top / height) - 8);
  const last = Math.min(count, Math.ceil((view.top + view.height) / height) + 8);
  const rows = [];
  for (let i = first; i < last; i++) rows.push(row(i, { top: i * height + 'px', height: height + 'px' }));
  return (
    <div class={'rows ' + c} ref={ref} onScroll={measure} tabIndex={0} role={role} aria-label={label}>
      <div class="all" style={{ height: count * height + 'px' }}>{rows}</div>
    </div>
  );
}

// Meter is a use of a limit.
export const Meter = ({ name, used, limit, text, stale }) => (
  <div class={'meter' + (stale ? ' stale' : '')}>
    <div><span class="dim">{name}</span> <b>{text}</b></div>
    {limit > 0 && <progress max={limit} value={Math.min(used, limit)} aria-label={name} />}
  </div>
);
