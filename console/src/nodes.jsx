// Nodes: the machines that commands may run on.
import { useState } from 'preact/hooks';
import { call, mayAll, post, self } from './api.js';
import { nudge, useLive } from './live.js';
import { plain } from './format.js';
import { linkTo } from './router.js';
import { Act, Badge, Code, Copyable, Empty, Fact, Facts, Field, Loaded, Page, Problem, Section, show, Table, Text, Time } from './ui.jsx';
import { Bindings } from './config.jsx';
import { T } from './text.js';

const tones = { online: 'run', offline: 'warn', revoked: 'bad', unknown: '' };
const labelText = (l) => Object.entries(l || {}).map(([k, v]) => `${k}=${v}`).join(' ');

function parseLabels(text) {
  const out = {};
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const at = word.indexOf('=');
    if (at < 1) throw new Error(`${T.nodes.labelsHint}: ${word}`);
    out[word.slice(0, at)] = word.slice(at + 1);
  }
  return out;
}

export function Nodes() {
  const live = useLive('/v1/nodes', { every: 4000 });
  const operate = mayAll('operate');
  const off = live.error?.status === 404; // nor has it SSH nodes
  const listens = live.data?.listen?.length > 0;
  return (
    <Page title={T.screens.nodes}>
      <Loaded of={off ? { data: { nodes: [] } } : live}>{({ nodes }) => (
        <>
          {operate && listens && <Requests />}
          {nodes.length > 0 && (
            <Table
              label={T.screens.nodes}
              columns={[[T.common.name, 'wide'], [T.common.state], [T.nodes.labels], [T.nodes.system], [T.nodes.version], [T.nodes.heard, 'num'], ['', 'acts']]}
              rows={nodes.map((n) => ({ key: n.id, cells: [
                <button class="plain link" onClick={() => show((close) => <About close={close} n={n} />)}><Text>{n.name}</Text></button>, <Badge tone={tones[n.state]}>{n.state}</Badge>, <Text>{labelText(n.labels)}</Text>,
                <Text>{[n.os, n.arch].filter(Boolean).join('/')}</Text>, <Text>{n.version || ''}</Text>, <Time at={n.lastHeard} />,
                operate && n.kind === 'node' && <Actions n={n} />,
              ] }))}
            />
          )}
          {nodes.length === 0 && (listens ? <Empty title={T.nodes.empty} hint={operate && T.nodes.emptyHint} /> : <Empty title={T.nodes.off} hint={T.nodes.offHint} />)}
          {operate && listens && <Join />}
          {operate && <Bindings nodes={nodes} />}
        </>
      )}</Loaded>
    </Page>
  );
}

function About({ n, close }) {
  return (
    <div>
      <h2><Text>{n.name}</Text></h2>
      <Facts>
        <Fact name={T.keys.id}><code>{n.id}</code></Fact>
        {n.key && <Fact name={T.nodes.key}><code class="sum">{n.key}</code></Fact>}
        <Fact name={T.common.host}><Text>{n.host || ''}</Text></Fact>
        {n.addresses?.length > 0 && <Fact name={T.nodes.address}><Text>{n.addresses.join(', ')}</Text></Fact>}
        {n.approvedBy && <Fact name={T.approvals.by}><Text>{n.approvedBy}</Text>, <Time at={n.pairedAt} /></Fact>}
        {n.features?.length > 0 && <Fact name={T.common.more}><Text>{n.features.join(' ')}</Text></Fact>}
      </Facts>
      <div class="actions end"><button autofocus onClick={() => close()}>{T.common.close}</button></div>
    </div>
  );
}

function Actions({ n }) {
  const path = '/v1/nodes/' + encodeURIComponent(n.id);
  if (n.state === 'revoked') return <Act small tone="danger" does={async () => { await call('DELETE', path); nudge(); }}>{T.nodes.forget}</Act>;
  return (
    <>
      <button class="small" onClick={() => show((close) => <Change close={close} n={n} path={path} />)}>{T.nodes.rename}</button>
      <Act small tone="danger" ask={T.nodes.revokeAsk(n.name)} does={async () => { await call('PATCH', path, { body: { revoked: true, by: self.get().name } }); nudge(); }}>{T.nodes.revoke}</Act>
    </>
  );
}

function Change({ n, path, close }) {
  const [error, set] = useState();
  return (
    <form onSubmit={async (e) => {
      e.preventDefault();
      const f = new FormData(e.target);
      try {
        const name = f.get('name').trim(), labels = parseLabels(f.get('labels'));
        for (const k of Object.keys(n.labels || {})) if (!(k in labels)) labels[k] = null;
        if (labelText(labels) !== labelText(n.labels)) await call('PATCH', path, { body: { labels } });
        if (name !== n.name) await call('PATCH', path, { body: { name } });
        close();
        nudge();
      } catch (err) {
        set(err);
      }
    }}>
      <h2><Text>{n.name}</Text></h2>
      <Field label={T.common.name}><input name="name" defaultValue={n.name} required autofocus spellcheck={false} /></Field>
      <Field label={T.nodes.labels} hint={T.nodes.labelsHint}><input name="labels" defaultValue={labelText(n.labels)} spellcheck={false} /></Field>
      <Problem error={error} />
      <div class="actions end"><button type="button" onClick={() => close()}>{T.common.cancel}</button><button class="primary">{T.common.save}</button></div>
    </form>
  );
}

function Requests() {
  const live = useLive('/v1/nodes/requests', { every: 3000 });
  const waiting = live.data?.requests.filter((r) => r.state === 'pending') || [];
  return waiting.length > 0 && (
    <div class="cards">{waiting.map((r) => <Request key={r.id + r.askedAt} r={r} />)}</div>
  );
}

function Request({ r }) {
  const [name, setName] = useState(r.name);
  const [labels, setLabels] = useState('');
  const path = '/v1/nodes/requests/' + encodeURIComponent(r.id);
  const answer = (decision) => async () => {
    await post(path, { decision, by: self.get().name, ...(decision === 'approve' && { name: name.trim(), labels: parseLabels(labels) }) });
    nudge();
  };
  return (
    <article class="card">
      <h2>{T.nodes.pending}: <Text>{r.name}</Text></h2>
      <Facts>
        {r.code && <Fact name={T.nodes.code}><b class="mono code-word">{r.code}</b> <span class="dim">{T.nodes.codeHint}</span></Fact>}
        <Fact name={T.nodes.key}><code class="sum">{r.key}</code></Fact>
        <Fact name={T.nodes.from}><Text>{[r.host, r.from].filter(Boolean).join(' · ')}</Text></Fact>
        <Fact name={T.nodes.system}><Text>{[r.os, r.arch, r.version].filter(Boolean).join(' · ')}</Text></Fact>
        <Fact name={T.nodes.asked}><Time at={r.askedAt} /></Fact>
      </Facts>
      {r.sameName && <p><Badge tone="warn">{T.nodes.sameName}</Badge></p>}
      {r.revokedAt && !r.revokedAt.startsWith('0001') && <p><Badge tone="bad">{T.nodes.wasRevoked}</Badge></p>}
      <div class="group wrap">
        <Field label={T.common.name}><input value={name} onInput={(e) => setName(e.target.value)} spellcheck={false} /></Field>
        <Field label={T.nodes.labels}><input value={labels} placeholder={T.nodes.labelsHint} onInput={(e) => setLabels(e.target.value)} spellcheck={false} /></Field>
      </div>
      <div class="actions"><Act tone="primary" does={answer('approve')}>{T.nodes.approve}</Act><Act tone="danger" does={answer('reject')}>{T.nodes.reject}</Act></div>
    </article>
  );
}

function Join() {
  const live = useLive('/v1/nodes/join', { every: 60_000 });
  return (
    <Section title={T.nodes.join}>
      <p class="dim">{T.nodes.joinText}</p>
      <Loaded of={live}>{(j) => <><Copyable text={j.command} />{j.webSocket && <Copyable text={j.webSocket.command} />}</>}</Loaded>
    </Section>
  );
}
