// The terminal emulator, in a file of its own that is loaded for terminals alone.
import { Terminal } from '@xterm/xterm';
import { FitAddon } from '@xterm/addon-fit';
import { SearchAddon } from '@xterm/addon-search';

// Sheets stand in for the style elements that xterm makes: the policy of the pages lets
// nobody write styles into them, but a script may hand in a style sheet.
function sheetDocument() {
  const made = new Set();
  const style = () => {
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    made.add(sheet);
    const el = document.createElement('template');
    let text = '';
    Object.defineProperty(el, 'textContent', { get: () => text, set(t) { text = t; sheet.replaceSync(t); } });
    Object.defineProperty(el, 'sheet', { get: () => sheet });
    return el;
  };
  const own = new Proxy(document, {
    get(doc, key) {
      if (key === 'createElement') return (name, options) => (name.toLowerCase() === 'style' ? style() : doc.createElement(name, options));
      const v = doc[key];
      return typeof v === 'function' ? v.bind(doc) : v;
    },
  });
  return [own, () => { document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => !made.has(s)); }];
}

export function make(element, { theme, readOnly }) {
  const [documentOverride, forget] = sheetDocument();
  const term = new Terminal({
    documentOverride, theme, allowProposedApi: true, scrollback: 5000, fontSize: 13, disableStdin: readOnly, screenReaderMode: false,
    fontFamily: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace', cursorBlink: false, macOptionIsMeta: true,
  });
  const fit = new FitAddon(), search = new SearchAddon();
  term.loadAddon(fit);
  term.loadAddon(search);
  term.open(element);
  return { term, fit, search, dispose() { term.dispose(); forget(); } };
}
