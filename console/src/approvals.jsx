// Approvals: what waits for an answer, exactly as it will run.
import { useEffect, useRef, useState } from 'preact/hooks';
import { may, post, self } from './api.js';
import { nudge, pending, useLive, useNow } from './live.js';
import { ago, isTime, plain } from './format.js';
import { approvalURL, go, linkTo, sessionURL, useCell } from './router.js';
import { Act, Badge, Code, Empty, Fact, Facts, Field, Loaded, Page, Section, Select, Table, Text, Time } from './ui.jsx';
import { T } from './text.js';

const quote = (a) => (/^[\w@%+=:,./-]+$/.test(a) ? a : `'${a.replace(/'/g, "'\\''")}'`);
export const commandOf = (a) => a.command || (a.args || []).map(quote).join(' ');
const where = (a) => [a.agent, a.host, a.node].filter(Boolean).join(' · ');

const answer = async (a, decision, scope) => {
  await post(`/v1/approvals/${encodeURIComponent(a.approvalId)}`, { decision, by: self.get().name, ...(scope && { scope }) });
  nudge();
};

const longCommand = 1500; // characters; a longer one is allowed where all of it is shown
const tones = { pending: 'warn', allowed: 'good', consumed: 'good', denied: 'bad', expired: '' };

// useNotices tells the browser of what begins to wait while the page is not seen.
export function useNotices() {
  const waiting = useCell(pending);
  const known = useRef(null);
  useEffect(() => {
    const before = known.current;
    known.current = new Set(waiting.map((a) => a.approvalId));
    if (!before || !document.hidden || globalThis.Notification?.permission !== 'granted') return;
    for (const a of waiting.filter((a) => !before.has(a.approvalId)).slice(0, 3)) {
      const n = new Notification(T.approvals.notifyTitle, { body: plain(commandOf(a), 160), tag: a.approvalId });
      n.onclick = () => { window.focus(); go(approvalURL(a)); };
    }
  }, [waiting]);
}

function Notify() {
  const [state, set] = useState(globalThis.Notification?.permission);
  return state === 'default' && <button onClick={async () => set(await Notification.requestPermission())}>{T.approvals.notify}</button>;
}

export function Approvals() {
  const all = useLive('/v1/approvals', { every: 10_000 });
  const mayAnswer = may('approve');
  useNow(1000);
  return (
    <Page title={T.screens.approvals} actions={<Notify />}>
      <Loaded of={all}>{({ approvals }) => {
        const waiting = approvals.filter((a) => a.state === 'pending').sort((a, b) => a.createdAt.localeCompare(b.createdAt));
        const isLong = (a) => commandOf(a).length > longCommand;
        const rest = approvals.filter((a) => a.state !== 'pending').sort((a, b) => b.seq - a.seq).slice(0, 200);
        return (
          <>
            {!mayAnswer && <p class="dim">{T.approvals.readOnly}</p>}
            {waiting.length === 0 && <Empty title={T.approvals.empty} hint={T.approvals.emptyHint}><a class="button" {...linkTo('policy')}>{T.screens.policy}</a></Empty>}
            {waiting.length > 1 && mayAnswer && (
              <p class="bulk"><Act tone="danger" ask={T.approvals.denyAllAsk(waiting.length)} does={async () => { await post('/v1/approvals', { decision: 'deny', by: self.get().name }); nudge(); }}>{T.approvals.denyAll}</Act></p>
            )}
            <div class="cards">
              {waiting.map((a) => (
                <article key={a.approvalId} class="card" data-row>
                  <a {...linkTo(approvalURL(a))} class="cmd"><Code block>{isLong(a) ? commandOf(a).slice(0, longCommand) + '…' : commandOf(a)}</Code></a>
                  <p class="dim"><Text>{where(a)}</Text> · <Text>{a.cwd}</Text> · {T.approvals.expires} {ago(a.expiresAt)}</p>
                  <p><Text>{a.decision.reason}</Text></p>
                  {mayAnswer && (
                    <div class="actions">
                      {isLong(a) ? <a class="button" {...linkTo(approvalURL(a))}>{T.approvals.whole}</a> : <Act tone="primary" does={() => answer(a, 'allow-once')}>{T.approvals.once}</Act>}
                      {!isLong(a) && a.allowedDecisions.includes('allow-always') && <a class="button" {...linkTo(approvalURL(a))}>{T.approvals.always}…</a>}
                      <Act tone="danger" does={() => answer(a, 'deny')}>{T.approvals.deny}</Act>
                    </div>
                  )}
                </article>
              ))}
            </div>
            {rest.length > 0 && (
              <Section title={T.approvals.answered}>
                <Table
                  label={T.approvals.answered}
                  columns={[[T.common.command, 'wide'], [T.common.state], [T.approvals.by], [T.approvals.where], [T.approvals.asked, 'num']]}
                  rows={rest.map((a) => ({ key: a.approvalId, cells: [
                    <a {...linkTo(approvalURL(a))} class="clip mono"><Text>{plain(commandOf(a), 300)}</Text></a>,
                    <Badge tone={tones[a.state]}>{a.verdict || a.state}</Badge>, <Text>{a.answeredBy || ''}</Text>, <Text>{where(a)}</Text>, <Time at={a.createdAt} />,
                  ] }))}
                />
              </Section>
            )}
          </>
        );
      }}</Loaded>
    </Page>
  );
}

const List = ({ items }) => (items?.length ? <ul class="plain">{items.map((x) => <li><Code>{x}</Code></li>)}</ul> : null);

export const RuleText = ({ rule }) => (
  <span class="rule">
    <Badge tone={{ allow: 'good', deny: 'bad', ask: 'warn' }[rule.action]}>{rule.action}</Badge>{' '}
    <Code>{rule.pattern || rule.command || ''}</Code>
    {rule.args && <> {rule.args.map((a) => <><Code>{a === '' ? "''" : a}</Code> </>)}</>}
    {rule.argPattern && <> <Code>{'/' + rule.argPattern + '/'}</Code></>}
    {rule.sha256 && <span class="dim mono"> {T.approvals.sha} {rule.sha256}</span>}
    {rule.env?.length > 0 && <span class="dim mono"> <Text>{rule.env.join(' ')}</Text></span>}
  </span>
);

export const Previews = ({ previews }) => (
  <Facts>
    {(previews || []).map((p) => (
      <Fact name={p.scope}>
        {p.unavailable ? <span class="dim"><Text>{p.unavailable}</Text></span> : <ul class="plain">{(p.entries || []).map((r) => <li><RuleText rule={r} /></li>)}</ul>}
      </Fact>
    ))}
  </Facts>
);

function Answer({ a }) {
  const scopes = (a.previews || []).filter((p) => !p.unavailable).map((p) => p.scope);
  const [scope, set] = useState(scopes[0]);
  const always = a.allowedDecisions.includes('allow-always');
  return (
    <div class="answer">
      <Act tone="primary" does={() => answer(a, 'allow-once')}>{T.approvals.once}</Act>
      {always && (
        <span class="group">
          {scopes.length > 1 && <Select label={T.approvals.scope} value={scope} options={scopes} onChange={set} />}
          <Act does={() => answer(a, 'allow-always', scope)}>{T.approvals.always}</Act>
        </span>
      )}
      <Act tone="danger" does={() => answer(a, 'deny')}>{T.approvals.deny}</Act>
      {!always && a.allowAlwaysUnavailable && <p class="dim">{T.approvals.cannot} <Text>{a.allowAlwaysUnavailable}</Text></p>}
    </div>
  );
}

export function Approval({ id }) {
  const one = useLive(`/v1/approvals/${encodeURIComponent(id)}`, { every: 5000 });
  useNow(1000);
  return (
    <Page title={T.approvals.one} back="approvals" sub={<code class="dim">{plain(one.data?.approvalSlug || id, 40)}</code>}>
      {one.error?.status === 404 ? <Empty title={T.approvals.gone} /> : (
        <Loaded of={one}>{(a) => (
          <>
            <p class="state">
              <Badge tone={tones[a.state]}>{a.verdict || a.state}</Badge>{' '}
              {a.state === 'pending' ? <span>{T.approvals.expires} {ago(a.expiresAt)}</span> : a.answeredBy && <span>{T.approvals.by} <Text>{a.answeredBy}</Text>, <Time at={a.answeredAt} /></span>}
              {a.void && <span> · {T.approvals.void}: <Text>{a.void}</Text></span>}
              {a.state === 'consumed' && a.commandId && <a class="button" {...linkTo(sessionURL({ sessionId: a.commandId, agent: a.agent }))}>{T.approvals.output}</a>}
            </p>
            {a.state === 'pending' && (may('approve') ? <Answer a={a} /> : <p class="dim">{T.approvals.readOnly}</p>)}
            <Section title={a.state === 'consumed' ? T.approvals.ran : T.approvals.what}>
              <Code block>{commandOf(a)}</Code>
              <Facts>
                {a.args?.length > 0 && <Fact name={T.approvals.argv}><ol class="argv" start={0}>{a.args.map((x) => <li><Code>{x}</Code></li>)}</ol></Fact>}
                {a.description && <Fact name={T.approvals.says}>“<Text>{a.description}</Text>”</Fact>}
                <Fact name={T.approvals.where}><Text>{where(a)}</Text></Fact>
                <Fact name={T.approvals.cwd}><Code>{a.cwd}</Code></Fact>
                {a.binding.realDir && a.binding.realDir !== a.cwd && <Fact name={T.approvals.realDir}><Code>{a.binding.realDir}</Code></Fact>}
                <Fact name={T.approvals.env}>{a.env?.length ? <List items={a.env} /> : <span class="dim">{T.approvals.none}</span>}</Fact>
                {a.pathPrepend?.length > 0 && <Fact name={T.approvals.path}><List items={a.pathPrepend} /></Fact>}
                {a.binding.programs?.length > 0 && <Fact name={T.approvals.programs}><List items={a.binding.programs.map((p) => p.realPath || p.path || p.name)} /></Fact>}
                {a.binding.scripts?.length > 0 && <Fact name={T.approvals.scripts}><ul class="plain">{a.binding.scripts.map((s) => <li><Code>{s.path}</Code> <span class="dim">{T.approvals.sha}</span> <code class="sum">{s.sha256}</code></li>)}</ul></Fact>}
                <Fact name={T.approvals.digest}><code class="sum">{a.binding.command}</code></Fact>
                {a.commandId && <Fact name={T.approvals.session}>{a.state === 'consumed' ? <a {...linkTo(sessionURL({ sessionId: a.commandId, agent: a.agent }))}>{a.commandId}</a> : <code>{a.commandId}</code>}</Fact>}
                {isTime(a.createdAt) && <Fact name={T.approvals.asked}><Time at={a.createdAt} /></Fact>}
              </Facts>
            </Section>
            <Section title={T.approvals.why}>
              <p><Text>{a.decision.reason}</Text></p>
              <Segments decision={a.decision} />
            </Section>
            {a.previews?.length > 0 && <Section title={T.approvals.remember}><Previews previews={a.previews} /></Section>}
          </>
        )}</Loaded>
      )}
    </Page>
  );
}

function Verdict({ of: s, decision }) {
  const why = s.refused || s.reason || s.unbound || s.inline;
  return <>{(s.by || !why) && <Badge tone={s.by ? 'good' : decision === 'allow' ? '' : 'warn'}>{s.by || T.policy.noRule}</Badge>} <Text>{why || ''}</Text></>;
}

// Segments are the programs of a command, and what is found beside them.
export const Segments = ({ decision: d }) => (
  <>
    {d.segments?.length > 0 && (
      <Table
        label={T.policy.segments}
        columns={[[T.policy.segments, 'wide'], [T.policy.program], [T.common.reason, 'wide']]}
        rows={d.segments.map((s, i) => ({ key: i, cells: [
          <Code>{s.text}</Code>, <Code>{s.realPath || s.path || (s.builtin ? 'builtin' : T.common.unknown)}</Code>,
          <Verdict of={s} decision={d.decision} />,
        ] }))}
      />
    )}
    {d.findings?.filter((f) => !f.passes).length > 0 && (
      <Facts>{d.findings.filter((f) => !f.passes).map((f) => <Fact name={f.kind}><Code>{f.text}</Code> <Text>{f.reason}</Text></Fact>)}</Facts>
    )}
  </>
);
