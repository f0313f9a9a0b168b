// The terminal emulator, in a file of its own that is loaded for terminals alone.
import { Terminal } from '@xterm/xterm';
import { FitAddon } from '@xterm/addon-fit';
import { SearchAddon } from '@xterm/addon-search';

// The policy of the pages lets nobody write styles into markup; a script may hand in a
// style sheet, and set the style of an element. xterm does the former. So it gets a
// document in which that is done in the other way, and an attribute that does it so.
const { setAttribute } = Element.prototype;
Element.prototype.setAttribute = function (name, value) {
  if (name === 'style') this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

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
  const createElement = (name, options) => {
    if (name.toLowerCase() === 'style') return style();
    return Document.prototype.createElement.call(document, name, options);
  };
  const own = new Proxy(document, {
    get(doc, key) {
      if (key === 'createElement') return createElement;
      const v = doc[key];
      return typeof v === 'function' ? v.bind(doc) : v;
    },
  });
  // Some of it asks the window's document all the same, while it is opened.
  const whileOpened = (open) => {
    document.createElement = createElement;
    try {
      open();
    } finally {
      delete document.createElement;
    }
  };
  return [own, whileOpened, () => { document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => !made.has(s)); }];
}

export function make(element, { theme, readOnly }) {
  const [documentOverride, whileOpened, forget] = sheetDocument();
  const term = new Terminal({
    documentOverride, theme, allowProposedApi: true, scrollback: 5000, fontSize: 13, disableStdin: readOnly, screenReaderMode: false,
    fontFamily: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace', cursorBlink: false, macOptionIsMeta: true,
  });
  const fit = new FitAddon(), search = new SearchAddon();
  term.loadAddon(fit);
  term.loadAddon(search);
  whileOpened(() => term.open(element));
  return { term, fit, search, dispose() { term.dispose(); forget(); } };
}
