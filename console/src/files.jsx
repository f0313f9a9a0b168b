// The files of a sandbox.
import { useEffect, useRef, useState } from 'preact/hooks';
import { call, get, may, request, saveAs } from './api.js';
import { bytes } from './format.js';
import { Act, Code, confirm, Empty, Field, Loading, Problem, Section, show, Table, Text, Time, toast } from './ui.jsx';
import { T } from './text.js';

const viewMost = 1 << 20; // bytes of a file that is shown

// Paths are kept as they are in a URL: the bytes of a name need not be UTF-8.

export function Files({ name, agent }) {
  const base = `/v1/sandboxes/${encodeURIComponent(name)}/files`;
  const [dir, setDir] = useState('.');
  const [page, set] = useState({});
  const [progress, setProgress] = useState('');
  const [over, setOver] = useState(false);
  const latest = useRef(0);
  const load = async (to = dir, after = '') => {
    const mine = ++latest.current;
    try {
      const got = await get(`${base}?path=${to}&${new URLSearchParams({ limit: 500, ...(after && { after }) })}`, { agent });
      if (mine !== latest.current) return;
      set((old) => ({ dir: to, entries: after ? [...old.entries, ...got.entries] : got.entries, next: got.next }));
      setDir(to);
    } catch (error) {
      if (mine === latest.current) set((old) => (old.entries ? (toast(error.message, error.hint, true), old) : { error }));
    }
  };
  useEffect(() => { load('.'); }, [name, agent]);
  const at = (path) => `${base}/content?path=${path}`;
  const pathOf = (e) => (e.pathBytes ? encodeBytes(e.pathBytes) : join(dir, leaf(e.path)));
  const write = may('run');

  const upload = async (list) => {
    for (const file of list) {
      const to = join(dir, file.name);
      try {
        if (page.entries?.some((e) => leaf(e.path) === file.name) && !(await confirm(T.sandboxes.overwrite(file.name), T.sandboxes.upload))) continue;
        setProgress(T.sandboxes.uploading(file.name, bytes(0), bytes(file.size)));
        await put(at(to), file, agent, (n) => setProgress(T.sandboxes.uploading(file.name, bytes(n), bytes(file.size))));
        toast(T.sandboxes.uploaded(file.name));
      } catch (error) {
        toast(error.message, error.hint, true);
      }
    }
    setProgress('');
    load();
  };

  return (
    <Section
      title={T.sandboxes.files}
      actions={
        <>
          {dir !== '.' && dir !== '/' && <button onClick={() => load(up(dir))}>{T.sandboxes.up}</button>}
          <Act does={async () => saveAs(await request('GET', `${base}/archive?path=${dir}`, { agent }), `${name}.tar`)}>{T.sandboxes.downloadTar}</Act>
          {write && <button onClick={() => show((close) => <NewDir close={close} base={base} agent={agent} dir={dir} done={load} />)}>{T.sandboxes.newDir}</button>}
          {write && <label class="button" tabIndex={0} onKeyDown={(e) => { if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); e.currentTarget.querySelector('input').click(); } }}>{T.sandboxes.upload}<input type="file" multiple hidden onChange={(e) => { upload([...e.target.files]); e.target.value = ''; }} /></label>}
        </>
      }
    >
      <p class="mono dim"><Text>{readable(dir).replace(/^\.(?=\/|$)/, T.sandboxes.root)}</Text></p>
      {page.error && <Problem error={page.error} />}
      <div
        class={'drop' + (over ? ' over' : '')}
        onDragOver={(e) => { if (write) { e.preventDefault(); setOver(true); } }}
        onDragLeave={() => setOver(false)}
        onDrop={(e) => { e.preventDefault(); setOver(false); if (write) upload([...e.dataTransfer.files]); }}
      >
        {!page.entries ? !page.error && <Loading /> : page.entries.length === 0 ? <Empty title={T.sandboxes.emptyDir} /> : (
          <Table
            label={T.sandboxes.files}
            columns={[[T.common.name, 'wide'], [T.sandboxes.size, 'num'], [T.sandboxes.mode], [T.sandboxes.modified, 'num'], ['', 'acts']]}
            rows={page.entries.map((e) => ({ key: e.pathBytes || e.path, cells: [
              e.type === 'directory' ? <button class="plain link mono" onClick={() => load(pathOf(e))}><Text>{leaf(e.path)}</Text>/</button>
                : e.type === 'file' ? <button class="plain link mono" onClick={() => show((close) => <View close={close} url={at(pathOf(e))} file={e} agent={agent} />)}><Text>{leaf(e.path)}</Text></button>
                : <span class="mono"><Text>{leaf(e.path)}</Text>{e.target && <span class="dim"> → <Text>{e.target}</Text></span>}</span>,
              e.type === 'file' ? bytes(e.size) : '', <code>{modeText(e.mode)}</code>, <Time at={e.modTime} />,
              <>
                {e.type === 'file' && <Act small does={async () => saveAs(await request('GET', at(pathOf(e)), { agent }), leaf(e.path))}>{T.sandboxes.download}</Act>}
                {write && <Act small tone="danger" ask={T.sandboxes.removeFile(leaf(e.path))} does={async () => { await call('DELETE', `${base}?path=${pathOf(e)}&all=true`, { agent }); load(); }}>{T.common.remove}</Act>}
              </>,
            ] }))}
          />
        )}
        {page.next && <button onClick={() => load(dir, page.next)}>{T.sandboxes.moreFiles}</button>}
      </div>
      {write && <p class="dim" role="status">{progress || T.sandboxes.drop}</p>}
    </Section>
  );
}

const leaf = (path) => path.replace(/\/+$/, '').split('/').pop();
const join = (dir, name) => (dir === '.' ? '.' : dir.replace(/\/$/, '')) + '/' + encodeURIComponent(name);
const encodeBytes = (base64) => atob(base64).replace(/[^/]/g, (c) => '%' + c.charCodeAt(0).toString(16).padStart(2, '0'));
const readable = (path) => path.replace(/(%[0-9a-f]{2})+/gi, (s) => {
  try {
    return decodeURIComponent(s);
  } catch {
    return '\ufffd';
  }
});
const up = (dir) => dir.split('/').slice(0, -1).join('/') || (dir.startsWith('/') ? '/' : '.');
const modeText = (m) => (typeof m === 'number' ? m.toString(8) : String(m ?? ''));

// put sends a file, and says how far it is, which fetch cannot.
function put(url, file, agent, onProgress) {
  return new Promise((resolve, reject) => {
    const x = new XMLHttpRequest();
    x.open('PUT', url);
    x.setRequestHeader('Corral-Console', localStorage.getItem('corral.token') || '');
    if (agent) x.setRequestHeader('Corral-Agent', agent);
    x.setRequestHeader('Content-Type', 'application/octet-stream');
    x.upload.onprogress = (e) => onProgress(e.loaded);
    x.onload = () => {
      if (x.status < 300) return resolve();
      let e = {};
      try { e = JSON.parse(x.responseText).error ?? {}; } catch { /* it is not from a gateway */ }
      reject(Object.assign(new Error(e.message || T.common.failed), e));
    };
    x.onerror = () => reject(new Error(T.common.failed));
    x.send(file);
  });
}

function NewDir({ close, base, agent, dir, done }) {
  const [error, set] = useState();
  return (
    <form onSubmit={async (e) => {
      e.preventDefault();
      try {
        await call('POST', `${base}/directory?path=${join(dir, new FormData(e.target).get('name'))}`, { agent });
        close();
        done();
      } catch (err) {
        set(err);
      }
    }}>
      <Field label={T.sandboxes.dirName}><input name="name" required autofocus spellcheck={false} /></Field>
      <Problem error={error} />
      <div class="actions end"><button type="button" onClick={() => close()}>{T.common.cancel}</button><button class="primary">{T.sandboxes.newDir}</button></div>
    </form>
  );
}

function View({ close, url, file, agent }) {
  const [state, set] = useState({});
  useEffect(() => {
    if (file.size > viewMost) return set({ note: T.sandboxes.tooBig(bytes(file.size)) });
    request('GET', url, { agent }).then((r) => r.arrayBuffer()).then((data) => {
      try {
        const text = new TextDecoder('utf-8', { fatal: true }).decode(data);
        set(text.includes('\0') ? { note: T.sandboxes.binary } : { text });
      } catch {
        set({ note: T.sandboxes.binary });
      }
    }, (error) => set({ error }));
  }, []);
  return (
    <div class="view">
      <h2 class="mono"><Text>{leaf(file.path)}</Text></h2>
      {state.note ? <p>{state.note}</p> : state.error ? <Problem error={state.error} /> : state.text === undefined ? <Loading /> : <pre class="code file" tabIndex={0}>{state.text}</pre>}
      <div class="actions end">
        <Act does={async () => saveAs(await request('GET', url, { agent }), leaf(file.path))}>{T.sandboxes.download}</Act>
        <button autofocus onClick={() => close()}>{T.common.close}</button>
      </div>
    </div>
  );
}
