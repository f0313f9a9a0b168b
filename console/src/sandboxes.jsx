// Sandboxes: what there is of each, what it uses, its files, ports and log.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { call, may, mayAll, post } from './api.js';
import { nudge, useLive } from './live.js';
import { bytes, moment, plain, short } from './format.js';
import { Chart, useUsage } from './charts.jsx';
import { go, linkTo, sandboxURL } from './router.js';
import { Act, Badge, Code, Copyable, Empty, Fact, Facts, Field, Loaded, Meter, Page, Problem, Section, Table, Text, Time, toast } from './ui.jsx';
import { Files } from './files.jsx';
import { configURL, useSetting } from './config.jsx';
import { openShell } from './terminals.jsx';
import { T } from './text.js';

const tones = { running: 'run', ended: '', none: '' };

export function Sandboxes() {
  const live = useLive('/v1/sandboxes', { every: 4000 });
  return (
    <Page title={T.screens.sandboxes} actions={mayAll('operate') && live.data?.sandboxes.length > 0 && <Act ask={T.sandboxes.pruneAsk} does={async () => { const r = await post('/v1/sandboxes/prune'); toast(T.sandboxes.pruned(r.removed.length), r.removed.join(', ')); nudge(); }}>{T.sandboxes.prune}</Act>}>
      {live.data?.pools?.map((p) => <p key={p.for} class="dim">{T.sandboxes.pool(p.for, p.ready, p.size)}</p>)}
      <Loaded of={live}>{({ sandboxes }) => (sandboxes.length === 0 ? <None /> : (
        <Table
          label={T.screens.sandboxes}
          columns={[[T.common.name, 'wide'], [T.common.state], [T.common.agent], [T.common.image], [T.sandboxes.engine], [T.sandboxes.commands, 'num'], [T.sandboxes.used, 'num']]}
          rows={sandboxes.map((s) => ({ key: s.name, cells: [
            <a class="mono" {...linkTo(sandboxURL(s.name))}><Text>{s.name}</Text></a>, <Badge tone={tones[s.state]}>{s.state}</Badge>, <Text>{s.agent || s.scope || ''}</Text>, <span class="mono"><Text>{s.image || ''}</Text></span>,
            <Text>{[s.engine, s.runtime].filter(Boolean).join(' · ')}</Text>, s.commands, <Time at={s.used} />,
          ] }))}
        />
      ))}</Loaded>
    </Page>
  );
}

// None says how there will be one.
function None() {
  return useSetting('sandbox.mode') === 'off' ? (
    <Empty title={T.sandboxes.off} hint={T.sandboxes.offHint}><a class="button" {...linkTo(configURL('sandbox.mode'))}>{T.config.open}</a></Empty>
  ) : (
    <Empty title={T.sandboxes.empty} hint={T.sandboxes.emptyHint}>{may('run') && <Act does={() => openShell({ host: 'sandbox' })}>{T.sandboxes.first}</Act>}</Empty>
  );
}

export function Sandbox({ id }) {
  const path = '/v1/sandboxes/' + encodeURIComponent(id);
  const one = useLive(path, { every: 4000 });
  const s = one.data;
  const agent = s?.agent || undefined;
  return (
    <Page
      title={plain(id, 60)} back="sandboxes" sub={s && <Badge tone={tones[s.state]}>{s.state}</Badge>}
      actions={s && (
        <>
          {may('run') && s.scope && <Act does={() => openShell({ agent, host: 'sandbox', session: s.session })}>{T.sandboxes.shell}</Act>}
          {may('operate') && <Act ask={T.sandboxes.recreateAsk} does={async () => { const r = await post(path + '/recreate'); toast(T.sandboxes.left(r.left.length)); nudge(); }}>{T.sandboxes.recreate}</Act>}
          {may('operate') && <Act tone="danger" ask={T.sandboxes.removeAsk} does={async () => { await call('DELETE', path); go('sandboxes'); }}>{T.sandboxes.removeIt}</Act>}
        </>
      )}
    >
      {one.error?.status === 404 ? <Empty title={T.sandboxes.gone} /> : (
        <Loaded of={one}>{() => (
          <>
            <Facts>
              {s.agent && <Fact name={T.common.agent}><Text>{s.agent}</Text>{s.session && <span class="dim"> · <Text>{s.session}</Text></span>}</Fact>}
              <Fact name={T.sandboxes.scope}>{s.scope}</Fact>
              <Fact name={T.common.image}><Code>{s.image || T.common.unknown}</Code></Fact>
              <Fact name={T.sandboxes.engine}>{[s.engine, s.runtime, s.driver].filter(Boolean).join(' · ')}</Fact>
              <Fact name={T.sandboxes.network}>{s.network}</Fact>
              <Fact name={T.sandboxes.user}>{s.user}</Fact>
              {s.workspace && <Fact name={T.sandboxes.workspace}><Code>{s.workspace}</Code>{s.workspaceAccess && ` (${s.workspaceAccess === 'none' ? T.sandboxes.private : s.workspaceAccess})`}</Fact>}
              <Fact name={T.common.created}>{moment(s.created)}{s.pooled && ` (${T.sandboxes.pooled})`}</Fact>
              <Fact name={T.sandboxes.commands}>{s.commands}</Fact>
              {s.limits && <Fact name={T.sandboxes.limits}>{[[T.sandboxes.memory, s.limits.memory && bytes(s.limits.memory)], [T.sandboxes.cpu, s.limits.cpus], [T.sandboxes.pids, s.limits.pids]].map(([n, v]) => `${n}: ${v || T.common.unlimited}`).join(', ')}</Fact>}
              {s.containers.length > 1 && <Fact name={T.sandboxes.containers}>{s.containers.length}</Fact>}
            </Facts>
            <Usage id={id} path={path} />
            {s.scope && <Files name={id} agent={agent} />}
            {s.scope && <Ports name={id} />}
            <Log path={path} />
          </>
        )}</Loaded>
      )}
    </Page>
  );
}

function Usage({ id, path }) {
  const live = useLive(path + '/stats', { every: 3000 });
  const hour = useUsage('sandbox:' + id);
  const before = useRef();
  const st = live.data;
  const cpu = useMemo(() => {
    const was = before.current;
    before.current = st;
    if (!st?.running || was?.container !== st.container) return 0;
    return Math.max(0, (st.cpuNanoseconds - was.cpuNanoseconds) / 1e6 / Math.max(1, Date.parse(st.at) - Date.parse(was.at)));
  }, [st]);
  if (live.error?.status === 501) return null;
  return (
    <Section title={T.sandboxes.usage}>
      <Loaded of={live}>{() => (
        <>
          {!st.running ? <p class="dim">{T.sandboxes.noStats}</p> : (
            <div class="meters">
              <Meter name={T.sandboxes.memory} used={st.memory} limit={st.memoryLimit} text={bytes(st.memory) + (st.memoryLimit ? ' / ' + bytes(st.memoryLimit) : '')} />
              <Meter name={T.sandboxes.cpu} used={cpu} limit={st.cpuLimit} text={cpu.toFixed(2) + (st.cpuLimit ? ' / ' + st.cpuLimit : '')} />
              <Meter name={T.sandboxes.pids} used={st.pids} limit={st.pidsLimit} text={st.pids + (st.pidsLimit ? ' / ' + st.pidsLimit : '')} />
              {st.oomKills > 0 && <p><Badge tone="bad">{T.sandboxes.oom}: {st.oomKills}</Badge></p>}
            </div>
          )}
          {hour.data && (
            <div class="charts">
              <Chart usage={hour.data} title={T.usage.title(T.sandboxes.memory)} series={[['memory', T.sandboxes.memory, '--run']]} format={bytes} />
              <Chart usage={hour.data} title={T.usage.title(T.sandboxes.cpu)} series={[['cpu', T.sandboxes.cpu, '--good']]} format={(v) => short(v)} />
            </div>
          )}
        </>
      )}</Loaded>
    </Section>
  );
}

function Ports({ name }) {
  const [port, set] = useState('');
  const [own, setOwn] = useState(null); // its address, if ports have host names
  const ok = /^\d{1,5}$/.test(port) && +port >= 1 && +port <= 65535;
  const path = `/v1/sandboxes/${encodeURIComponent(name)}`;
  useEffect(() => {
    let current = true;
    setOwn(null);
    if (ok) call('GET', `${path}/address?port=${+port}`).then((a) => current && setOwn(a), () => {});
    return () => { current = false; };
  }, [port]);
  return (
    <Section title={T.sandboxes.ports}>
      <div class="group">
        <input class="short num" inputMode="numeric" aria-label={T.sandboxes.port} placeholder={T.sandboxes.port} value={port} onInput={(e) => set(e.target.value.trim())} />
        {ok ? <a class="button" target="_blank" rel="noopener noreferrer" href={own ? own.open : `${path}/ports/${+port}/`}>{T.sandboxes.openPort}</a> : <button disabled>{T.sandboxes.openPort}</button>}
      </div>
      {own ? <p class="dim">{T.sandboxes.portOwn} <code>{own.url}</code></p>
        : <p class="dim">{T.sandboxes.portHint} <code>corral sandbox forward {name} {ok ? port : 'PORT'}</code></p>}
    </Section>
  );
}

function Log({ path }) {
  const live = useLive(path + '/log', { every: 15_000 });
  return (
    <Section title={T.sandboxes.log}>
      <Loaded of={live}>{({ containers }) => (containers.length === 0 ? <p class="dim">{T.sandboxes.noLog}</p> : containers.slice().reverse().map((c) => (
        <div class="life" key={c.container}>
          <p><code>{c.container}</code> <span class="dim"><Time at={c.created} /></span> {c.error && <Badge tone="bad"><Text>{c.error}</Text></Badge>} {c.ended && <span class="dim">· <Text>{c.ended.why || c.ended.error || (c.ended.removed ? 'removed' : `exit code ${c.ended.code}`)}</Text>, <Time at={c.ended.at} /></span>}</p>
          {c.setup && (
            <details open={c.setup.failed}>
              <summary>{T.sandboxes.setup}: <Text>{c.setup.exit || T.common.unknown}</Text>{c.setup.failed && <> <Badge tone="bad">{T.sandboxes.setupFailed}</Badge></>}</summary>
              <pre class="code file" tabIndex={0}>{c.setup.output}</pre>
            </details>
          )}
        </div>
      )))}</Loaded>
    </Section>
  );
}
