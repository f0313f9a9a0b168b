// What needs somebody, what runs, and what went wrong.
import { may, mayAll } from './api.js';
import { pending, useLive, useNow } from './live.js';
import { duration, exitText, failed, plain, short, tone } from './format.js';
import { Chart, useUsage } from './charts.jsx';
import { linkTo, sandboxURL, sessionURL, useCell } from './router.js';
import { byStart, StartButton, useSessions } from './sessions.jsx';
import { Badge, Empty, Loaded, Page, Section, Table, Text, Time } from './ui.jsx';
import { T } from './text.js';

const day = 86_400_000;

const Count = ({ name, to, n, tone: t }) => (
  <a class={'tile ' + (n ? t || '' : '')} {...linkTo(to)}><b class="num">{n ?? '–'}</b><span>{name}</span></a>
);

// Findings are those of the doctor that are not as they should be.
function Findings() {
  const live = useLive('/v1/doctor', { every: 60_000 });
  const bad = live.data?.findings.filter((f) => f.status !== 'ok').sort((a, b) => (a.status === b.status ? 0 : a.status === 'fail' ? -1 : 1));
  if (!bad) return null;
  return (
    <Section title={T.overview.doctor}>
      {bad.length === 0 ? <p class="dim">{T.overview.healthy(live.data.findings.length)}</p> : (
        <ul class="plain findings">
          {bad.map((f) => (
            <li key={f.name}>
              <details>
                <summary><Badge tone={f.status === 'fail' ? 'bad' : 'warn'}>{f.name}</Badge> <Text>{f.summary}</Text></summary>
                {f.meaning && <p><Text>{f.meaning}</Text></p>}
                {f.fix && <p>{T.overview.fix}: <Text>{f.fix}</Text></p>}
              </details>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}

// Hour is what the gateway did in the last hour.
function Hour() {
  const live = useUsage('gateway');
  return live.data && (
    <Section title={T.overview.hour}>
      <div class="charts">
        <Chart usage={live.data} title={T.overview.rate} series={[['begun', T.overview.begun, '--run'], ['failed', T.overview.failed, '--bad']]} format={short} />
        <Chart usage={live.data} title={T.overview.latency} series={[['latency', T.overview.latency, '--good']]} format={(v) => short(v) + ' ms'} />
        <Chart usage={live.data} title={T.overview.requests} series={[['requests', T.overview.requestsShort, '--run'], ['errors', T.overview.errors, '--bad']]} format={short} />
      </div>
    </Section>
  );
}

export function Overview() {
  const sessions = useSessions();
  const nodes = useLive('/v1/nodes', { every: 10_000 });
  const sandboxes = useLive('/v1/sandboxes', { every: 10_000 });
  const waiting = useCell(pending);
  const now = useNow(5000);
  const all = sessions.data?.sessions;
  const bad = all?.filter((s) => failed(s) && now - Date.parse(s.endedAt || s.startedAt) < day);
  const known = nodes.data?.nodes.filter((n) => n.state !== 'revoked') || [];
  const versions = [...new Set(known.map((n) => n.version).filter((v) => v && v !== 'unknown'))].sort();
  return (
    <Page title={T.screens.overview} actions={may('run') && <StartButton />}>
      <div class="tiles">
        <Count name={T.overview.waiting} to="approvals" n={waiting.length} tone="warn" />
        <Count name={T.overview.running} to="sessions?state=running" n={all?.filter((s) => s.status === 'running').length} tone="run" />
        <Count name={T.overview.failedDay} to="sessions?state=failed" n={bad?.length} tone="bad" />
        <Count name={T.overview.sandboxes} to="sandboxes" n={sandboxes.data?.sandboxes.filter((s) => s.state === 'running').length} />
        {!nodes.error && <Count name={T.overview.nodes} to="nodes" n={nodes.data ? known.filter((n) => n.state === 'online').length : undefined} />}
      </div>
      {nodes.data?.pending > 0 && mayAll('operate') && <p><a {...linkTo('nodes')}>{T.overview.pairing(nodes.data.pending)}</a></p>}
      {mayAll('operate') && <Findings />}
      {mayAll('read') && <Hour />}
      <Loaded of={sessions}>{() => (all.length === 0 ? <Empty title={T.overview.nothing} hint={may('run') && T.overview.nothingHint} command={may('run') && T.overview.nothingCommand} /> : (
        <>
          <Section title={T.overview.recent}>
            <Table
              label={T.overview.recent}
              columns={[[T.common.state], [T.common.command, 'wide'], [T.common.agent], [T.common.host], [T.sessions.began, 'num'], [T.sessions.took, 'num']]}
              rows={all.slice().sort(byStart).slice(0, 12).map((s) => ({ key: s.agent + s.sessionId, cells: [
                <Badge tone={tone(s)}>{exitText(s)}</Badge>, <a class="mono clip" {...linkTo(sessionURL(s))}><Text>{plain(s.command, 160)}</Text></a>, <Text>{s.agent}</Text>, <Text>{s.node || s.host || ''}</Text>,
                <Time at={s.startedAt} />, duration((s.endedAt ? Date.parse(s.endedAt) : now) - Date.parse(s.startedAt)),
              ] }))}
            />
          </Section>
        </>
      ))}</Loaded>
      {versions.length > 0 && <Section title={T.overview.versions}><p><Text>{versions.join(', ')}</Text></p></Section>}
    </Page>
  );
}
