// The policy: what would become of a command, what is in force and why, and the rules.
import { useEffect, useState } from 'preact/hooks';
import { call, may, post, self } from './api.js';
import { useLive } from './live.js';
import { plain } from './format.js';
import { linkTo, sessionURL } from './router.js';
import { hostChoices } from './sessions.jsx';
import { Act, Badge, Code, Copyable, Fact, Facts, Field, Loaded, Page, Problem, Section, Select, Table, Text, toast } from './ui.jsx';
import { Previews, RuleText, Segments } from './approvals.jsx';
import { T } from './text.js';

const tones = { allow: 'good', ask: 'warn', deny: 'bad' };
export const sourceText = (s) => (s ? [s.file && (s.line ? `${s.file}:${s.line}` : s.file), s.key, s.name].filter(Boolean).join(' ') || T.common.unknown : T.common.unknown);

export function Policy() {
  const [agent, setAgent] = useState(self.get().agents.find((a) => !/[*?[]/.test(a)) || 'main');
  return (
    <Page title={T.screens.policy} actions={<label class="group"><span class="dim">{T.common.agent}</span><input class="short" defaultValue={agent} spellcheck={false} onChange={(e) => setAgent(e.target.value.trim() || 'main')} /></label>}>
      {may('run') ? <Explain key={agent} agent={agent} /> : <p class="dim">{T.policy.noRun}</p>}
      <Rules key={'rules' + agent} agent={agent} />
    </Page>
  );
}

function Explain({ agent }) {
  const [command, setCommand] = useState('');
  const [host, setHost] = useState('gateway');
  const [state, set] = useState({});
  useEffect(() => {
    if (!command.trim()) return set({});
    const stop = new AbortController();
    const t = setTimeout(() => post('/v1/explain', { command, ...(host && { host }) }, { agent, signal: stop.signal })
      .then((report) => set({ report }), (error) => stop.signal.aborted || set({ error })), 250);
    return () => {
      clearTimeout(t);
      stop.abort();
    };
  }, [command, host, agent]);
  const r = state.report;
  return (
    <Section title={T.policy.explain}>
      <div class="group wrap">
        <input class="mono grow" aria-label={T.policy.command} placeholder={T.policy.hint} value={command} onInput={(e) => setCommand(e.target.value)} spellcheck={false} autocomplete="off" />
        <Select label={T.common.host} value={host} options={hostChoices} onChange={setHost} />
      </div>
      <Problem error={state.error} />
      {r && (
        <div class="report">
          <p class="state"><Badge tone={tones[r.outcome]}>{T.policy.outcome[r.outcome] || r.outcome}</Badge> <Text>{r.reason}</Text></p>
          {!r.guarded && <p class="dim">{T.policy.unguarded}</p>}
          {r.guarded && <Segments decision={r.decision} />}
          {r.fix?.length > 0 && <Facts><Fact name={T.policy.fix}><ul class="plain">{r.fix.map((f) => <li><Text>{f}</Text></li>)}</ul></Fact></Facts>}
          {r.commands?.map((c) => <Copyable text={c} />)}
          {r.previews?.length > 0 && <><h3>{T.policy.previews}</h3><Previews previews={r.previews} /></>}
          {r.guarded && (
            <Table
              label={T.policy.settings}
              columns={[[T.policy.setting], [T.policy.value], [T.policy.source, 'wide']]}
              rows={['security', 'ask', 'askFallback'].filter((k) => r.decision[k]).map((k) => ({ key: k, cells: [<code>{k}</code>, <Code>{String(r.decision[k].value)}</Code>, <span class="dim"><Text>{sourceText(r.decision[k].source)}</Text></span>] }))}
            />
          )}
          {r.warnings?.map((w) => <p><Badge tone="warn">{T.policy.warnings}</Badge> <Text>{w}</Text></p>)}
        </div>
      )}
    </Section>
  );
}

function Rules({ agent }) {
  const q = new URLSearchParams({ agent });
  const live = useLive(`/v1/approvals/rules?${q}`, { every: 15_000 });
  const operate = may('operate');
  return (
    <Section title={T.policy.rules}>
      <Loaded of={live}>{({ file, rules, warnings }) => (
        <>
          <p class="dim">{T.policy.file}: <Code>{file}</Code></p>
          {warnings.map((w) => <p><Badge tone="warn">{T.policy.warnings}</Badge> <Text>{w}</Text></p>)}
          {rules.length === 0 ? <p class="dim">{T.policy.rulesEmpty}</p> : (
            <Table
              label={T.policy.rules}
              columns={[[T.policy.rule, 'wide'], [T.common.reason], [T.policy.source], ['', 'acts']]}
              rows={rules.map((r, i) => ({ key: i, cells: [
                <RuleText rule={r} />, <Text>{r.reason || ''}</Text>, <span class="dim"><Text>{sourceText(r.source)}</Text></span>,
                operate && r.pattern && <Act small tone="danger" ask={async () => { const e = await preview({ agent, remove: r.id || r.pattern }); return T.policy.removeAsk(r.pattern, T.policy.effect(e.changed.length, e.commands)); }} does={async () => { await call('DELETE', `/v1/approvals/rules?${new URLSearchParams({ agent, ref: r.id || r.pattern })}`); live.reload(); }}>{T.policy.remove}</Act>,
              ] }))}
            />
          )}
          {operate && <Add agent={agent} done={live.reload} />}
        </>
      )}</Loaded>
    </Section>
  );
}

// preview is what a rule would change about the last commands.
const preview = (trial, options) => post('/v1/approvals/rules/preview', trial, options);

const ruleOf = (form) => {
  const f = Object.fromEntries(new FormData(form));
  return { action: f.action, pattern: f.pattern.trim(), ...(f.reason.trim() && { reason: f.reason.trim() }) };
};

function Add({ agent, done }) {
  const [error, set] = useState();
  const [trial, setTrial] = useState();
  const [effect, setEffect] = useState();
  useEffect(() => {
    setEffect();
    if (!trial?.pattern) return;
    const stop = new AbortController();
    const t = setTimeout(() => preview({ agent, ...trial }, { signal: stop.signal })
      .then((e) => { setEffect(e); set(); }, (err) => stop.signal.aborted || set(err)), 300);
    return () => {
      clearTimeout(t);
      stop.abort();
    };
  }, [trial?.action, trial?.pattern, agent]);
  return (
    <form onInput={(e) => setTrial(ruleOf(e.currentTarget))} onSubmit={async (e) => {
      e.preventDefault();
      const form = e.target;
      try {
        await call('POST', '/v1/approvals/rules', { body: { agent, ...ruleOf(form) } });
        form.reset();
        set();
        setTrial();
        done();
      } catch (err) {
        set(err);
      }
    }}>
      <div class="group wrap">
        <select name="action" aria-label={T.policy.action}><option>allow</option><option>ask</option><option>deny</option></select>
        <input name="pattern" class="mono grow" aria-label={T.policy.pattern} placeholder={T.policy.addHint} required spellcheck={false} />
        <input name="reason" aria-label={T.common.reason} placeholder={T.common.reason} />
        <button>{T.policy.add}</button>
      </div>
      <Problem error={error} />
      {effect && !error && (
        <div role="status" class="effect">
          <p>{T.policy.effect(effect.changed.length, effect.commands)}</p>
          <ul class="plain">
            {effect.changed.slice(0, 20).map((c) => (
              <li key={c.sessionId}><Badge tone={tones[c.now]}>{T.policy.outcome[c.now]}</Badge> → <Badge tone={tones[c.then]}>{T.policy.outcome[c.then]}</Badge> <a class="mono" {...linkTo(sessionURL(c))}><Text>{plain(c.command, 160)}</Text></a></li>
            ))}
          </ul>
        </div>
      )}
    </form>
  );
}
