// Nodes: the machines that commands may run on.
import { useState } from 'preact/hooks';
import { call, mayAll, post, self } from './api.js';
import { nudge, useLive, useNow } from './live.js';
import { ago, bytes, exitText, plain, short, tone } from './format.js';
import { linkTo, sessionURL } from './router.js';
import { Chart, useUsage } from './charts.jsx';
import { byStart, useSessions } from './sessions.jsx';
import { Act, Badge, Code, Copyable, Empty, Fact, Facts, Field, Loaded, Meter, Page, Problem, Section, show, Table, Text, Time } from './ui.jsx';
import { Bindings, configURL } from './config.jsx';
import { T } from './text.js';

const tones = { online: 'run', offline: 'warn', revoked: 'bad', unknown: '' };
const labelText = (l) => Object.entries(l || {}).map(([k, v]) => `${k}=${v}`).join(' ');

function parseLabels(text) {
  const out = {};
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const at = word.indexOf('=');
    if (at < 1) throw new Error(`${T.nodes.labelsError}: ${word}`);
    out[word.slice(0, at)] = word.slice(at + 1);
  }
  return out;
}

// Old is a value of a node, greyed when the node is away.
const Old = ({ of, children }) => <span class={of.state === 'online' ? '' : 'stale'} title={of.state === 'online' ? undefined : T.nodes.asOf(ago(of.lastHeard))}>{children || '–'}</span>;

const State = ({ n }) => <><Badge tone={tones[n.state]}>{n.state}</Badge>{n.problem && <span title={plain(n.problem, 500)}> <Badge tone="warn">{T.nodes.problem}</Badge></span>}</>;

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
              columns={[[T.common.name, 'wide'], [T.common.state], [T.nodes.labels], [T.nodes.load, 'num'], [T.sandboxes.memory, 'num'], [T.nodes.system], [T.nodes.version], [T.nodes.heard, 'num'], ['', 'acts']]}
              rows={nodes.map((n) => ({ key: n.id, cells: [
                <a {...linkTo('nodes/' + encodeURIComponent(n.id))}><Text>{n.name}</Text></a>, <State n={n} />, <Text>{labelText(n.labels)}</Text>,
                <Old of={n}>{n.load && short(n.load.average)}</Old>, <Old of={n}>{n.load?.memory > 0 && Math.round((100 * n.load.memoryUsed) / n.load.memory) + ' %'}</Old>,
                <Text>{[n.os, n.arch].filter(Boolean).join('/')}</Text>, <Text>{n.version || ''}</Text>, <Time at={n.lastHeard} />,
                operate && n.kind === 'node' && <Actions n={n} />,
              ] }))}
            />
          )}
          {nodes.length === 0 && (listens ? <Empty title={T.nodes.empty} hint={T.nodes.emptyHint} /> : (
            <Empty title={T.nodes.off} hint={T.nodes.offHint}>{operate && <a class="button" {...linkTo(configURL('nodes.listen'))}>{T.config.open}</a>}</Empty>
          ))}
          {operate && listens && <Join />}
          {operate && <Bindings nodes={nodes} />}
        </>
      )}</Loaded>
    </Page>
  );
}

// Meters are what a node said last of how busy it is. Of one that is away they are old.
function Meters({ n }) {
  const l = n.load, stale = n.state !== 'online';
  if (!l) return <p class="dim">{T.nodes.noLoad}</p>;
  return (
    <>
      {stale && <p><Badge tone="warn">{T.nodes.asOf(ago(n.lastHeard))}</Badge></p>}
      <div class="meters">
        <Meter stale={stale} name={T.nodes.load} used={l.average} limit={l.cpus} text={`${short(l.average)} / ${T.nodes.cpus(l.cpus)}`} />
        {l.memory > 0 && <Meter stale={stale} name={T.sandboxes.memory} used={l.memoryUsed} limit={l.memory} text={`${bytes(l.memoryUsed)} / ${bytes(l.memory)}`} />}
        {l.disk > 0 && <Meter stale={stale} name={T.nodes.disk} used={l.diskUsed} limit={l.disk} text={`${bytes(l.diskUsed)} / ${bytes(l.disk)}`} />}
        <Meter stale={stale} name={T.sandboxes.pids} text={l.processes ? `${l.processes}, ${T.nodes.ofCommands(l.running)}` : T.nodes.ofCommands(l.running)} />
      </div>
    </>
  );
}

export function Node({ id }) {
  const one = useLive('/v1/nodes/' + encodeURIComponent(id), { every: 4000 });
  const hour = useUsage(one.data?.kind === 'node' ? 'node:' + one.data.id : null);
  const sessions = useSessions();
  useNow(5000);
  const n = one.data;
  const there = (sessions.data?.sessions || []).filter((s) => n && (s.node === n.name || s.node === n.id)).sort(byStart);
  return (
    <Page
      title={n ? plain(n.name, 60) : plain(id, 60)} back="nodes" sub={n && <State n={n} />}
      actions={n && mayAll('operate') && n.kind === 'node' && <Actions n={n} />}
    >
      {one.error?.status === 404 ? <Empty title={T.nodes.gone} /> : (
        <Loaded of={one}>{() => (
          <>
            <Facts>
              {n.problem && <Fact name={T.nodes.problem}><Text>{n.problem}</Text></Fact>}
              <Fact name={T.keys.id}><code>{n.id}</code></Fact>
              {n.labels && <Fact name={T.nodes.labels}><Text>{labelText(n.labels)}</Text></Fact>}
              {n.key && <Fact name={T.nodes.key}><code class="sum">{n.key}</code></Fact>}
              <Fact name={T.nodes.system}><Text>{[n.os, n.arch, n.version].filter(Boolean).join(' · ')}</Text></Fact>
              <Fact name={T.common.host}><Text>{n.host || ''}</Text></Fact>
              {n.addresses?.length > 0 && <Fact name={T.nodes.address}><Text>{n.addresses.join(', ')}</Text></Fact>}
              {n.approvedBy && <Fact name={T.nodes.approvedBy}><Text>{n.approvedBy}</Text>, <Time at={n.pairedAt} /></Fact>}
              {n.features?.length > 0 && <Fact name={T.nodes.features}><Text>{n.features.join(' ')}</Text></Fact>}
              <Fact name={T.nodes.heard}><Time at={n.lastHeard} /></Fact>
            </Facts>
            {n.kind === 'node' && (
              <Section title={T.sandboxes.usage}>
                <Meters n={n} />
                {hour.data?.at.length > 0 && (
                  <div class="charts">
                    <Chart usage={hour.data} title={T.usage.title(T.nodes.load)} series={[['load', T.nodes.load, '--good']]} format={short} />
                    <Chart usage={hour.data} title={T.usage.title(T.sandboxes.memory)} series={[['memory', T.sandboxes.memory, '--run']]} format={bytes} limit={n.load?.memory} />
                  </div>
                )}
              </Section>
            )}
            <Section title={T.nodes.sessions}>
              {there.length === 0 ? <p class="dim">{T.nodes.noSessions}</p> : (
                <Table
                  label={T.nodes.sessions}
                  columns={[[T.common.state], [T.common.command, 'wide'], [T.common.agent], [T.sessions.began, 'num']]}
                  rows={there.slice(0, 50).map((s) => ({ key: s.agent + s.sessionId, cells: [<Badge tone={tone(s)}>{exitText(s)}</Badge>, <a class="mono clip" {...linkTo(sessionURL(s))}><Text>{plain(s.command, 160)}</Text></a>, <Text>{s.agent}</Text>, <Time at={s.startedAt} />] }))}
                />
              )}
            </Section>
          </>
        )}</Loaded>
      )}
    </Page>
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
      <Loaded of={live}>{(j) => <><Copyable text={j.command} />{j.webSocket && <><p class="dim">{T.nodes.webSocket}</p><Copyable text={j.webSocket.command} /></>}</>}</Loaded>
    </Section>
  );
}
