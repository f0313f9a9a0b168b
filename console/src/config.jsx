// The configuration: what each key comes to, where that is written, and changing it.
import { useMemo, useState } from 'preact/hooks';
import { call, mayAll } from './api.js';
import { nudge, useLive } from './live.js';
import { go, linkTo, usePlace } from './router.js';
import { sourceText } from './policy.jsx';
import { useSessions } from './sessions.jsx';
import { Act, Badge, Code, Field, Loaded, Page, Problem, Section, Select, show, Table, Text, toast } from './ui.jsx';
import { T } from './text.js';

const configPath = '/v1/config';

// The page, at a key.
export const configURL = (find, agent = '') => 'config?' + new URLSearchParams({ ...(agent && { agent }), find });

// useSetting is what a key comes to for all agents, to those who may see it.
export function useSetting(key) {
  const { data } = useLive(mayAll('operate') ? `${configPath}?${new URLSearchParams({ key })}` : null, { every: 10_000 });
  return data && (data.flags.find((f) => f.key === key) || data.values[0]).value;
}

// The version that our own change made of another: the next change may come before the page
// has loaded it.
const made = new Map();

// change changes one key of the file; value is JSON5, and null removes the key.
export async function change(key, value, version) {
  while (made.has(version)) version = made.get(version);
  const changed = await call('PATCH', configPath, { body: { key, value, version } });
  made.delete(changed.version); // a file may become again what it was
  if (changed.version !== version) made.set(version, changed.version);
  for (const r of changed.remarks) toast(r, '', false, true);
  nudge();
}

const steps = (key) => key.split(/[.[\]]+/).filter(Boolean);
// The key within the settings of an agent, which are the same at each place.
const within = (key) => key.replace(/^agents\.(?:defaults|list\[\d+\])\./, '');

function schemaOf(schema, key) {
  let s = schema;
  for (const step of steps(key)) s = s && (/^\d+$/.test(step) ? s.items : s.properties?.[step] || (s.additionalProperties?.not ? undefined : s.additionalProperties));
  return s || {};
}

// What a flag of the gateway gives counts in the place of the file.
const flagOf = (data, v) => data.flags.find((f) => f.key === within(v.key));

const shownValue = (v) => (v === null ? <span class="dim">{T.config.unset}</span> : <Code>{typeof v === 'string' ? v : JSON.stringify(v)}</Code>);

export function Configuration() {
  const { query } = usePlace();
  const agent = query.get('agent') || '';
  const live = useLive(`${configPath}?${new URLSearchParams({ agent })}`, { every: 10_000 });
  const schema = useLive(configPath + '/schema', { every: 3_600_000 }).data;
  const [text, setText] = useState(query.get('find') || '');
  const [only, setOnly] = useState(false);
  const data = live.data;
  const mayChange = mayAll('configure') && schema && !data?.error;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = useMemo(() => (data?.values || []).filter((v) => (!only || v.source.file || flagOf(data, v))
    && words.every((w) => `${v.key} ${schemaOf(schema, v.key).description || ''} ${JSON.stringify(v.value)} ${flagOf(data, v)?.flag || ''}`.toLowerCase().includes(w))), [data, schema, text, only]);
  const choose = (a) => go('config' + (a ? '?' + new URLSearchParams({ agent: a }) : ''), { replace: true });
  return (
    <Page title={T.screens.config} actions={data && (
      <>
        <Select label={T.common.agent} value={agent} options={[['', T.config.allAgents], ...data.agents]} onChange={choose} />
        {mayChange && <button onClick={() => show((close) => <NewAgent close={close} data={data} done={choose} />)}>{T.config.newAgent}</button>}
      </>
    )}
    >
      <div class="filters">
        <input type="search" aria-label={T.common.search} placeholder={T.config.find} value={text} onInput={(e) => setText(e.target.value)} />
        <label class="check"><input type="checkbox" checked={only} onChange={(e) => setOnly(e.target.checked)} /> {T.config.only}</label>
      </div>
      <Loaded of={live}>{() => (
        <>
          <p class="dim">{data.file ? <>{T.policy.file}: <Code>{data.file}</Code></> : T.config.noFile}</p>
          {data.error && <Problem error={{ message: data.error, hint: T.config.mend }} />}
          <Table
            label={T.screens.config}
            columns={[[T.config.key, 'wide'], [T.policy.value, 'wide'], [T.policy.source], ['', 'acts']]}
            rows={shown.map((v) => ({ v, flag: flagOf(data, v) })).map(({ v, flag }) => ({ key: v.key, cells: [
              <><code><Text>{within(v.key)}</Text></code><p class="help dim"><Text>{schemaOf(schema, v.key).description || ''}</Text></p></>,
              <>{shownValue(flag ? flag.value : v.value)}{flag && v.source.file && <p class="help dim">{T.config.fileHas} {shownValue(v.value)}</p>}</>,
              flag ? <span title={T.config.byFlag(flag.flag)}><code>{flag.flag}</code></span> : <span class={v.source.file ? '' : 'dim'}><Text>{v.source.file ? `${v.source.key}, ${T.config.line(v.source.line)}` : sourceText(v.source)}</Text></span>,
              mayChange && <button class="small" aria-label={`${T.config.edit} ${within(v.key)}`} onClick={() => show((close) => <Edit close={close} v={v} of={schemaOf(schema, v.key)} version={data.version} flag={flag} agent={data.agents.includes(agent) ? agent : ''} />)}>{T.config.edit}</button>,
            ] }))}
          />
          {shown.length === 0 && <p class="dim">{T.config.noneMatch}</p>}
        </>
      )}</Loaded>
    </Page>
  );
}

const types = (s) => [].concat(s.type || []);
const isWords = (s) => types(s).includes('array') && s.items?.type === 'string' && types(s).length === 1;

// How a value is typed: as one of some words, as a string, as lines, or as JSON5.
function formOf(s) {
  if (types(s).includes('boolean')) return { words: ['true', 'false'] };
  if (s.enum) return { words: s.enum, string: true };
  if (isWords(s)) return { lines: true };
  if (types(s).length === 1 && s.type === 'string') return { string: true };
  return { block: types(s).includes('array') || types(s).includes('object') };
}

function Edit({ v, of, version, flag, agent, close }) {
  const form = formOf(of);
  const [error, set] = useState();
  const start = v.value === null ? '' : form.lines ? v.value.join('\n') : typeof v.value === 'string' ? v.value : JSON.stringify(v.value);
  const [text, setText] = useState(start || (form.words ? form.words[0] : ''));
  const save = async (value) => {
    try {
      await change(v.key, value, version);
      close();
    } catch (err) {
      if (err.code === 'conflict') nudge();
      set(err);
    }
  };
  const encoded = () => (form.lines ? JSON.stringify(text.split('\n').map((l) => l.trim()).filter(Boolean)) : form.string ? JSON.stringify(text) : text);
  const label = within(v.key);
  const written = v.source.key === v.key;
  return (
    <form onSubmit={(e) => { e.preventDefault(); save(encoded()); }}>
      <h2><code><Text>{label}</Text></code></h2>
      <p>{of.description}</p>
      {flag && <p><Badge tone="warn">{flag.flag}</Badge> {T.config.byFlag(flag.flag)}</p>}
      <p class="dim">{agent ? T.config.forAgent(agent) : T.config.forAll} <Code>{v.key}</Code></p>
      {of.default !== undefined && <p class="dim">{T.config.standard}: <Code>{typeof of.default === 'string' ? of.default : JSON.stringify(of.default)}</Code></p>}
      {of.examples && <p class="dim">{T.config.example}: <Code>{of.examples.join(', ')}</Code></p>}
      <Field label={T.policy.value} hint={form.lines ? T.config.lines : form.block ? T.config.json5 : ''}>
        {form.words ? <select name="value" value={text} autofocus onChange={(e) => setText(e.target.value)}>{form.words.map((w) => <option>{w}</option>)}</select>
          : form.lines || form.block ? <textarea name="value" class="mono" rows={6} autofocus spellcheck={false} value={text} onInput={(e) => setText(e.target.value)} />
            : <input name="value" class="mono" autofocus spellcheck={false} autocomplete="off" value={text} onInput={(e) => setText(e.target.value)} />}
      </Field>
      <Problem error={error} />
      <div class="actions end">
        {written && <Act tone="danger" does={() => save(null)}>{T.config.remove}</Act>}
        <button type="button" onClick={() => close()}>{T.common.cancel}</button>
        <button class="primary">{T.common.save}</button>
      </div>
    </form>
  );
}

function NewAgent({ data, close, done }) {
  const [error, set] = useState();
  return (
    <form onSubmit={async (e) => {
      e.preventDefault();
      const id = new FormData(e.target).get('id').trim();
      try {
        await change(`agents.list[${data.agents.length}].id`, JSON.stringify(id), data.version);
        close();
        done(id);
      } catch (err) {
        set(err);
      }
    }}>
      <h2>{T.config.newAgent}</h2>
      <Field label={T.common.agent} hint={T.config.newAgentHint}><input name="id" required autofocus maxLength={128} spellcheck={false} /></Field>
      <Problem error={error} />
      <div class="actions end"><button type="button" onClick={() => close()}>{T.common.cancel}</button><button class="primary">{T.policy.add}</button></div>
    </form>
  );
}

// Bindings: which node an agent's commands for a node go to. It is written to the file.
export function Bindings({ nodes }) {
  const live = useLive(`${configPath}?key=agents&key=tools.exec.node&key=tools.exec.host`, { every: 10_000 });
  const sessions = useSessions();
  const [more, setMore] = useState([]);
  const usable = nodes.filter((n) => n.state !== 'revoked');
  if (!usable.length || live.error?.status === 404) return null;
  const pools = [...new Set(usable.map((n) => n.labels?.pool).filter(Boolean))].sort().map((p) => 'pool:' + p);
  const mayChange = mayAll('configure');
  return (
    <Section title={T.nodes.bindings}>
      <p class="dim">{T.nodes.bindingsHint}{!mayChange && ' ' + T.nodes.adminOnly}</p>
      <Loaded of={live}>{({ values: [agents, common, host], version }) => {
        const list = agents.value?.list || [], ofDefaults = agents.value?.defaults?.tools?.exec?.node;
        const usual = agents.value?.defaults?.tools?.exec?.host || host.value;
        const named = list.map((a) => a.id);
        const others = [...new Set(['main', ...more, ...(sessions.data?.sessions || []).map((s) => s.agent)])].filter((a) => !named.includes(a)).sort().slice(0, 50);
        const rows = [
          { agent: '', host: usual, now: ofDefaults ?? common.value, path: ofDefaults === undefined ? 'tools.exec.node' : 'agents.defaults.tools.exec.node' },
          ...list.map((a, i) => ({ agent: a.id, host: a.tools?.exec?.host || usual, now: a.tools?.exec?.node, path: `agents.list[${i}].tools.exec.node` })),
          ...others.map((agent) => ({ agent, host: usual, path: `agents.list[${list.length}]`, isNew: true })),
        ];
        return (
          <Table
            label={T.nodes.bindings}
            columns={[[T.common.agent, 'wide'], [T.nodes.usually], [T.common.node]]}
            rows={rows.map((r) => ({ key: r.agent, cells: [
              r.agent ? <Text>{r.agent}</Text> : <span class="dim">{T.nodes.allAgents}</span>,
              <a {...linkTo(configURL('tools.exec.host', r.isNew ? '' : r.agent))}>{r.host}</a>,
              <Binding {...r} options={[['', r.agent ? T.nodes.asAll : T.nodes.unbound], ...usable.map((n) => n.name), ...pools]} version={version} disabled={!mayChange} />,
            ] }))}
          />
        );
      }}</Loaded>
      {mayChange && (
        <form class="group below" onSubmit={(e) => { e.preventDefault(); const name = new FormData(e.target).get('agent').trim(); if (name) setMore([...more, name]); e.target.reset(); }}>
          <input name="agent" aria-label={T.nodes.another} placeholder={T.nodes.another} spellcheck={false} /><button>{T.policy.add}</button>
        </form>
      )}
    </Section>
  );
}

function Binding({ agent, now, path, isNew, options, version, disabled }) {
  const said = useLive(agent ? '/v1/overrides' : null, { agent: agent || undefined, every: 15_000 }).data?.node;
  const set = (node) => {
    const value = isNew ? { id: agent, tools: { exec: { node } } } : node;
    return change(path, node ? JSON.stringify(value) : null, version).catch((err) => { toast(err.message, err.hint, true); nudge(); });
  };
  const all = !now || options.some((o) => [].concat(o)[0] === now) ? options : [...options, now];
  return (
    <>
      <Select label={`${T.common.node}: ${agent || T.nodes.allAgents}`} value={now || ''} options={all} disabled={disabled} onChange={set} />
      {said && <> <Badge tone="warn">{T.nodes.said(said)}</Badge></>}
    </>
  );
}
