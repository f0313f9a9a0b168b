// Keys: who else may use the gateway.
import { useState } from 'preact/hooks';
import { call, post } from './api.js';
import { nudge, useLive } from './live.js';
import { isTime, moment } from './format.js';
import { Act, Badge, Copyable, Empty, Field, Loaded, Page, Problem, show, Table, Text, Time } from './ui.jsx';
import { T } from './text.js';

const roles = Object.keys(T.keys.roles);

export function Keys() {
  const live = useLive('/v1/keys', { every: 10_000 });
  return (
    <Page title={T.screens.keys} actions={<button class="primary" onClick={() => show((close) => <New close={close} />)}>{T.keys.new}</button>}>
      <Loaded of={live}>{({ keys }) => (keys.length === 0 ? <Empty title={T.keys.empty} hint={T.keys.emptyHint} /> : (
        <Table
          label={T.screens.keys}
          columns={[[T.common.name, 'wide'], [T.keys.role], [T.keys.agents], [T.keys.hosts], [T.keys.sessions, 'num'], [T.common.created, 'num'], [T.keys.used, 'num'], [T.keys.expires, 'num'], ['', 'acts']]}
          rows={keys.map((k) => ({ key: k.id, cells: [
            <><Text>{k.name}</Text> <code class="dim">{k.id}</code></>, <Badge>{k.role}</Badge>, <Text>{k.agents.join(' ') || T.common.all}</Text>, <Text>{k.hosts.join(' ') || T.common.all}</Text>, k.maxSessions || T.common.unlimited,
            <Time at={k.createdAt} />, k.lastUsedAt ? <Time at={k.lastUsedAt} /> : T.keys.unused, k.expiresAt ? <Time at={k.expiresAt} /> : T.keys.never,
            <>
              <Act small ask={T.keys.rotateAsk(k.name)} does={async () => { const made = await post(`/v1/keys/${k.id}/rotate`); nudge(); show((close) => <Secret made={made} close={close} />); }}>{T.keys.rotate}</Act>
              <Act small tone="danger" ask={T.keys.revokeAsk(k.name)} does={async () => { await call('DELETE', '/v1/keys/' + k.id); nudge(); }}>{T.keys.revoke}</Act>
            </>,
          ] }))}
        />
      ))}</Loaded>
    </Page>
  );
}

const Secret = ({ made, close }) => (
  <div>
    <h2>{T.keys.secret} <Text>{made.name}</Text></h2>
    <p>{T.keys.once}</p>
    <Copyable text={made.secret} />
    <div class="actions end"><button class="primary" onClick={() => close()}>{T.common.close}</button></div>
  </div>
);

const words = (text) => text.split(/\s+/).filter(Boolean);

function New({ close }) {
  const [error, set] = useState();
  const [made, setMade] = useState();
  if (made) return <Secret made={made} close={close} />;
  return (
    <form onSubmit={async (e) => {
      e.preventDefault();
      const data = new FormData(e.target), f = Object.fromEntries(data);
      try {
        setMade(await call('POST', '/v1/keys', { body: {
          name: f.name.trim(), role: f.role, agents: words(f.agents), hosts: data.getAll('host'),
          ...(+f.max && { maxSessions: +f.max }), ...(+f.rate && { rate: +f.rate }), ...(f.ttl.trim() && { ttl: f.ttl.trim() }),
        } }));
        nudge();
      } catch (err) {
        set(err);
      }
    }}>
      <h2>{T.keys.new}</h2>
      <Field label={T.common.name}><input name="name" required autofocus maxLength={128} spellcheck={false} /></Field>
      <Field label={T.keys.role}><select name="role">{roles.map((r) => <option value={r}>{r}: {T.keys.roles[r]}</option>)}</select></Field>
      <Field label={T.keys.agents} hint={T.keys.agentsHint}><input name="agents" spellcheck={false} /></Field>
      <fieldset class="group wrap"><legend>{T.keys.hosts}</legend>{['sandbox', 'gateway', 'node'].map((h) => <label class="check"><input type="checkbox" name="host" value={h} /> {h}</label>)}</fieldset>
      <div class="group wrap">
        <Field label={T.keys.sessions}><input name="max" class="short num" inputMode="numeric" pattern="[0-9]*" /></Field>
        <Field label={T.keys.rate}><input name="rate" class="short num" inputMode="decimal" /></Field>
        <Field label={T.keys.ttl} hint={T.keys.ttlHint}><input name="ttl" class="short" /></Field>
      </div>
      <Problem error={error} />
      <div class="actions end"><button type="button" onClick={() => close()}>{T.common.cancel}</button><button class="primary">{T.keys.create}</button></div>
    </form>
  );
}
