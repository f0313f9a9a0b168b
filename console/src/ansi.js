// Output of commands as lines of coloured pieces. Nothing that a command writes becomes
// markup: a piece is a text and names of classes. What is kept is bounded.
export const maxLine = 16_384; // characters; a longer line is continued on the next
export const maxLines = 100_000;
export const maxKept = 32 << 20; // weight of all lines
const maxEscape = 4096;

const CSI = /^\x1b\[([0-9;:<=>?]*)[ -/]*([@-~])/;

// An Ansi takes bytes as they come. lines is a list of lines, each a list of
// {text, class, color, background}; first is the number of the first that is kept.
export class Ansi {
  constructor() {
    this.lines = [[]];
    this.first = 0;
    this.kept = 0; // weight of all lines but the last
    this.decoders = {};
    this.rest = '';
    this.style = {};
    this.home = false; // a carriage return came: what follows replaces the line
    this.length = 0; // of the last line
  }

  write(data, stream) {
    const decoder = (this.decoders[stream] ||= new TextDecoder());
    this.text(decoder.decode(data, { stream: true }), stream);
  }

  // note adds a line of our own.
  note(text) {
    if (this.length) this.newline();
    this.append(text, 'note');
    this.newline();
  }

  text(text, stream) {
    const s = this.rest + text;
    this.rest = '';
    const base = stream === 2 ? 'err' : '';
    let i = 0;
    while (i < s.length) {
      const c = s.charCodeAt(i);
      if (c === 10) {
        this.newline();
        i++;
      } else if (c === 13) {
        this.home = true;
        i++;
      } else if (c === 8) {
        this.erase();
        i++;
      } else if (c === 27) {
        const n = this.escape(s, i);
        if (n < 0) { // it is not all here
          this.rest = s.slice(i, i + maxEscape);
          return;
        }
        i += n;
      } else if ((c < 32 && c !== 9) || c === 127) {
        i++;
      } else {
        let end = i + 1;
        for (let d; end < s.length && ((d = s.charCodeAt(end)) >= 32 || d === 9) && d !== 127; end++);
        this.append(s.slice(i, end), base);
        i = end;
      }
    }
  }

  // escape is how long the escape sequence at i is; -1: it has no end yet.
  escape(s, i) {
    const rest = s.slice(i, i + maxEscape);
    const whole = rest.length === maxEscape;
    if (rest.length < 2) return -1;
    const kind = rest[1];
    if (kind === '[') {
      const m = CSI.exec(rest);
      if (m) {
        if (m[2] === 'm') this.sgr(m[1]);
        else if (m[2] === 'K' && (m[1] === '2' || this.home)) this.clear();
        return m[0].length;
      }
      return !whole && /^\x1b\[[0-9;:<=>? -/]*$/.test(rest) ? -1 : 2;
    }
    if (kind === ']' || kind === 'P' || kind === '_' || kind === '^' || kind === 'X') { // a text for the terminal
      const m = /\x07|\x1b\\/.exec(rest.slice(2));
      if (m) return 2 + m.index + m[0].length;
      return whole ? 2 : -1;
    }
    if (kind >= ' ' && kind <= '/') return rest.length < 3 ? -1 : 3;
    return 2;
  }

  sgr(params) {
    const p = params.split(/[;:]/).map((x) => parseInt(x, 10) || 0);
    const st = { ...this.style };
    for (let i = 0; i < p.length; i++) {
      const n = p[i];
      if (n === 0) for (const k of Object.keys(st)) delete st[k];
      else if (n === 1) st.bold = true;
      else if (n === 2) st.dim = true;
      else if (n === 3) st.italic = true;
      else if (n === 4) st.underline = true;
      else if (n === 7) st.inverse = true;
      else if (n === 9) st.strike = true;
      else if (n === 22) { delete st.bold; delete st.dim; }
      else if (n === 23) delete st.italic;
      else if (n === 24) delete st.underline;
      else if (n === 27) delete st.inverse;
      else if (n === 29) delete st.strike;
      else if ((n >= 30 && n <= 37) || (n >= 90 && n <= 97)) st.fg = n < 90 ? n - 30 : n - 82;
      else if ((n >= 40 && n <= 47) || (n >= 100 && n <= 107)) st.bg = n < 100 ? n - 40 : n - 92;
      else if (n === 39) delete st.fg;
      else if (n === 49) delete st.bg;
      else if (n === 38 || n === 48) {
        const key = n === 38 ? 'fg' : 'bg';
        if (p[i + 1] === 5) {
          st[key] = palette(p[i + 2]);
          i += 2;
        } else if (p[i + 1] === 2) {
          st[key] = `rgb(${[p[i + 2], p[i + 3], p[i + 4]].map((v) => Math.min(255, v || 0)).join(', ')})`;
          i += 4;
        }
      }
    }
    this.style = st;
  }

  append(text, base) {
    if (this.home) this.clear();
    while (text) {
      const part = text.slice(0, maxLine - this.length);
      text = text.slice(part.length);
      const st = this.style, names = base ? [base] : [];
      for (const k of ['bold', 'dim', 'italic', 'underline', 'inverse', 'strike']) if (st[k]) names.push('t-' + k);
      const piece = { text: part, class: '' };
      for (const [key, name] of [['fg', 'color'], ['bg', 'background']]) {
        if (typeof st[key] === 'number') names.push(`${key}-${st[key]}`);
        else if (st[key]) piece[name] = st[key];
      }
      piece.class = names.join(' ');
      const line = this.lines[this.lines.length - 1], last = line[line.length - 1];
      if (last && last.class === piece.class && last.color === piece.color && last.background === piece.background) last.text += part;
      else line.push(piece);
      this.length += part.length;
      if (this.length >= maxLine) this.newline();
    }
  }

  newline() {
    this.kept += weight(this.lines[this.lines.length - 1]);
    this.lines.push([]);
    this.length = 0;
    this.home = false;
    if (this.lines.length > maxLines + 1000 || this.kept > maxKept) this.drop();
  }

  // drop forgets the first lines: many at a time, since the others are moved.
  drop() {
    let n = 0;
    for (; this.lines.length - n > maxLines || this.kept > 0.9 * maxKept; n++) this.kept -= weight(this.lines[n]);
    this.lines.splice(0, n);
    this.first += n;
  }

  clear() {
    this.lines[this.lines.length - 1] = [];
    this.length = 0;
    this.home = false;
  }

  erase() {
    const line = this.lines[this.lines.length - 1], last = line[line.length - 1];
    if (!last) return;
    last.text = last.text.slice(0, -1);
    this.length--;
    if (!last.text) line.pop();
  }
}

// weight is about how many bytes a line takes: each piece takes some, however short it is.
const weight = (line) => line.reduce((sum, p) => sum + p.text.length + 100, 0);

const steps = [0, 95, 135, 175, 215, 255];

// palette is one of 256 colours: the first 16 are those of the theme.
function palette(n) {
  n = Math.max(0, Math.min(255, n || 0));
  if (n < 16) return n;
  if (n >= 232) return `rgb(${[0, 0, 0].fill(8 + (n - 232) * 10).join(', ')})`;
  n -= 16;
  return `rgb(${[steps[Math.floor(n / 36)], steps[Math.floor(n / 6) % 6], steps[n % 6]].join(', ')})`;
}

export const lineText = (line) => line.map((p) => p.text).join('');
