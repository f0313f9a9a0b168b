// Numbers, times and names as they are shown.
import { T } from './text.js';

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(n) {
  let i = 0;
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${i && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

// short is a number of things, with as many digits as say something.
export const short = (n) => (n >= 100 ? Math.round(n) : n >= 10 ? n.toFixed(1) : n.toFixed(2)).toString().replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');

export function duration(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 1) return `${Math.max(0, Math.round(ms))} ms`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60 ? (s % 60) + ' s' : ''}`.trim();
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export const isTime = (t) => !!t && !t.startsWith('0001-');

export function ago(t, now = Date.now()) {
  if (!isTime(t)) return T.common.unknown;
  const d = now - Date.parse(t);
  if (Math.abs(d) < 1000) return T.common.now;
  const text = duration(Math.abs(d)).split(' ').slice(0, 2).join(' ');
  return d > 0 ? T.common.ago(text) : T.common.inTime(text);
}

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
export const moment = (t) => (isTime(t) ? clock.format(new Date(t)) : T.common.unknown);

export function exitText(s) {
  const e = s.exit;
  if (s.status === 'running') return 'running';
  if (s.reason) return s.reason;
  if (!e) return s.status;
  if (e.signalName || e.signal) return e.signalName || `signal ${e.signal}`;
  return e.exitCode === null || e.exitCode === undefined ? s.status : `exit ${e.exitCode}`;
}

export const failed = (s) => s.status === 'failed' || s.status === 'unknown' || (s.status === 'completed' && s.exit?.exitCode !== 0);
export const tone = (s) => (s.status === 'running' ? 'run' : failed(s) ? 'bad' : 'good');

// Characters that draw nothing, or turn the text around them: they could make a command
// look like another one.
const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]/gu;

// visible splits a text into what is seen, and what has to be shown by its number.
export function visible(text) {
  const parts = [];
  let at = 0;
  for (const m of text.matchAll(unseen)) {
    if (m.index > at) parts.push(text.slice(at, m.index));
    parts.push({ code: 'U+' + m[0].codePointAt(0).toString(16).toUpperCase().padStart(4, '0') });
    at = m.index + m[0].length;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

// plain is a text in one line, without what is not seen, for titles.
export const plain = (text, most = 80) => {
  const s = [...text.replace(unseen, '').replace(/\s+/g, ' ').trim()];
  return s.length > most ? s.slice(0, most - 1).join('') + '…' : s.join('');
};
