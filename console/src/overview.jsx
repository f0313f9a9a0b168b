// What needs somebody, what runs, and what went wrong.
import { may, mayAll } from './api.js';
import { pending, useLive, useNow } from './live.js';
import { ago, duration, exitText, failed, plain, tone } from './format.js';
import { linkTo, sandboxURL, sessionURL, useCell } from './router.js';
import { byStart, useSessions } from './sessions.jsx';
import { Badge, Empty, Loaded, Page, Section, Spark, Table, Text, Time } from './ui.jsx';
import { T } from './text.js';

const day = 86_400_000;

const Count = ({ name, to, n, tone: t }) => (
  <a class={'tile ' + (n ? t || '' : '')} {...linkTo(to)}><b class="num">{n ?? '–'}</b><span>{name}</span></a>
);

export function Overview() {
  const sessions = useSessions();
  const nodes = useLive('/v1/nodes', { every: 10_000 });
  const sandboxes = useLive('/v1/sandboxes', { every: 10_000 });
  const waiting = useCell(pending);
  const now = useNow(5000);
  const all = sessions.data?.sessions;
  const bad = all?.filter((s) => failed(s) && now - Date.parse(s.endedAt || s.startedAt) < day);
  const perMinute = new Array(60).fill(0);
  for (const s of all || []) {
    const m = Math.floor((now - Date.parse(s.startedAt)) / 60_000);
    if (m >= 0 && m < 60) perMinute[59 - m]++;
  }
  const known = nodes.data?.nodes.filter((n) => n.state !== 'revoked') || [];
  const versions = [...new Set(known.map((n) => n.version).filter((v) => v && v !== 'unknown'))].sort();
  return (
    <Page title={T.screens.overview}>
      <div class="tiles">
        <Count name={T.overview.waiting} to="approvals" n={waiting.length} tone="warn" />
        <Count name={T.overview.running} to="sessions?state=running" n={all?.filter((s) => s.status === 'running').length} tone="run" />
        <Count name={T.overview.failedDay} to="sessions?state=failed" n={bad?.length} tone="bad" />
        <Count name={T.overview.sandboxes} to="sandboxes" n={sandboxes.data?.sandboxes.filter((s) => s.state === 'running').length} />
        {!nodes.error && <Count name={T.overview.nodes} to="nodes" n={nodes.data ? known.filter((n) => n.state === 'online').length : undefined} />}
      </div>
      {nodes.data?.pending > 0 && mayAll('operate') && <p><a {...linkTo('nodes')}>{T.overview.pairing(nodes.data.pending)}</a></p>}
      <Loaded of={sessions}>{() => (all.length === 0 ? <Empty title={T.overview.nothing} hint={may('run') && T.overview.nothingHint} command={may('run') && T.overview.nothingCommand} /> : (
        <>
          <Section title={T.overview.rate}><Spark bars values={perMinute} label={T.overview.rate} /></Section>
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
