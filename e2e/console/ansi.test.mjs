// What the console makes of hostile output, without a browser.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Ansi, lineText, maxKept, maxLine, maxLines } from '../../console/src/ansi.js';
import { plain, visible } from '../../console/src/format.js';

const bytes = (s) => new TextEncoder().encode(s);
const lines = (s) => { const a = new Ansi(); a.write(bytes(s), 1); return a.lines.map(lineText); };

test('lines', () => {
  for (const [text, want] of [
    ['a\nb\n', ['a', 'b', '']],
    ['50%\r100%', ['100%']],
    ['a\r\nb', ['a', 'b']],
    ['ab\bc', ['ac']],
    ['\x1b[31mred\x1b[0m plain', ['red plain']],
    ['\x1b]0;a title\x07text', ['text']],
    ['\x1b]8;;javascript:x\x1b\\link\x1b]8;;\x1b\\', ['link']],
    ['\x1bPsecret\x1b\\x', ['x']],
    ['\x1b[2J\x1b[Hx', ['x']],
    ['\x1b(Bx', ['x']],
    ['a\x00\x01\x7fb', ['ab']],
    ['tab\there', ['tab\there']],
  ]) assert.deepEqual(lines(text), want, JSON.stringify(text));
});

test('colours', () => {
  const a = new Ansi();
  a.write(bytes('\x1b[1;31ma\x1b[38;5;208mb\x1b[38;2;1;2;999mc\x1b[48;5;20;4md\x1b[me'), 1);
  assert.deepEqual(a.lines[0].map((p) => [p.text, p.class, p.color]), [
    ['a', 't-bold fg-1', undefined], ['b', 't-bold', 'rgb(255, 135, 0)'], ['c', 't-bold', 'rgb(1, 2, 255)'], ['d', 't-bold t-underline', 'rgb(1, 2, 255)'], ['e', '', undefined]]);
});

// However it is cut, it is the same; no piece has a control character, a class of
// somebody else's, or a colour that is none.
test('random output', () => {
  let seed = 42;
  const random = (n) => { seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0; return seed % n; };
  const words = ['\x1b[', '\x1b]', '\x1b', '\x1bP', '\x07', '\x1b\\', 'm', '38;5;', '38;2;', ';', '1', '255', '99999999999', '\r', '\n', '\b', 'K', '2', 'text', '<script>', '"', 'é', '漢', '\u202e', '\x00', '\x9b', '?', ' ', ':'];
  for (let round = 0; round < 3000; round++) {
    let text = '';
    for (let i = random(60); i >= 0; i--) text += words[random(words.length)];
    const data = bytes(text), whole = new Ansi(), cut = new Ansi();
    whole.write(data, 1);
    for (let i = 0; i < data.length;) {
      const n = 1 + random(7);
      cut.write(data.subarray(i, i + n), 1);
      i += n;
    }
    assert.deepEqual(cut.lines, whole.lines, JSON.stringify(text));
    for (const p of whole.lines.flat()) {
      assert.doesNotMatch(p.text, /[\x00-\x08\x0a-\x1f\x7f]/);
      assert.match(p.class, /^(?:(?:t-[a-z]+|[fb]g-\d{1,2}|err|note)(?: |$))*$/);
      for (const c of [p.color, p.background]) if (c !== undefined) assert.match(c, /^rgb\(\d{1,3}, \d{1,3}, \d{1,3}\)$/);
    }
  }
});

test('bounds', () => {
  const a = new Ansi();
  for (let i = 0; i < 200; i++) a.write(bytes('x'.repeat(100_000)), 1);
  assert.ok(a.lines.every((l) => lineText(l).length <= maxLine));
  for (let i = 0; i < 30; i++) a.write(bytes('\n'.repeat(10_000)), 1);
  assert.ok(a.lines.length <= maxLines + 1000 && a.first > 0);
  const heavy = (a) => a.lines.reduce((sum, l) => sum + lineText(l).length + 100 * l.length, 0);
  const long = new Ansi();
  for (let i = 0; i < 50_000; i++) long.write(bytes('x'.repeat(1000) + '\n'), 1);
  assert.ok(heavy(long) <= 2 * maxKept && long.first > 0 && long.lines.length > 10_000, `${heavy(long)} in ${long.lines.length} lines`);
  const coloured = new Ansi(), line = bytes('\x1b[31ma\x1b[32mb'.repeat(500) + '\n');
  for (let i = 0; i < 2000; i++) coloured.write(line, 1);
  assert.ok(heavy(coloured) <= 2 * maxKept && coloured.first > 0, `${heavy(coloured)} in ${coloured.lines.length} lines`);
  const b = new Ansi();
  for (let i = 0; i < 1000; i++) b.write(bytes('\x1b]0;' + 'x'.repeat(1000)), 1); // without an end
  assert.ok(b.rest.length <= 4096);
});

test('what is not seen', () => {
  assert.deepEqual(visible('a\u202eb\u200b'), ['a', { code: 'U+202E' }, 'b', { code: 'U+200B' }]);
  assert.deepEqual(visible('two\n\tlines'), ['two\n\tlines']);
  assert.equal(plain('a\u202e\n b\x1b[31m', 80), 'a b[31m');
  assert.equal(plain('x'.repeat(100), 10), 'x'.repeat(9) + '…');
});
