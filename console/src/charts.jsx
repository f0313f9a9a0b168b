// Charts of the last hour, as the gateway measured it.
import { useEffect, useRef } from 'preact/hooks';
import { loaded } from './api.js';
import { useLive } from './live.js';
import { T } from './text.js';

export const useUsage = (of) => useLive(of && '/v1/usage?' + new URLSearchParams({ of }), { every: 20_000 });

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const height = 120;

// Chart draws series of a usage: [name, label, colour]. It says the last values in words, too.
export function Chart({ usage, title, series, format, limit }) {
  const box = useRef(), made = useRef();
  const last = (name) => usage.series[name]?.[usage.at.length - 1];
  const some = usage.at.length > 1;
  useEffect(() => {
    if (!some) return;
    const el = box.current; // the ref is cleared before this effect is
    let gone = false, observers = [];
    const draw = async () => {
      const { default: uPlot } = await loaded(import('./uplot.js'));
      if (gone) return;
      made.current?.destroy();
      const axis = { stroke: color('--dim'), font: '11px system-ui, sans-serif', ticks: { show: false }, grid: { stroke: color('--line'), width: 1 } };
      made.current = new uPlot({
        width: el.clientWidth, height, legend: { show: false }, cursor: { y: false }, padding: [6, 26, 0, 0],
        scales: { y: { range: (u, min, max) => [0, Math.max(max, limit || 0, 0.1) * 1.05] } },
        axes: [{ ...axis, size: 22, space: 60, values: (u, at) => at.map((t) => new Date(t * 1000).toTimeString().slice(0, at.at(-1) - at[0] < 300 ? 8 : 5)) }, { ...axis, size: 62, values: (u, v) => v.map(format) }],
        series: [{}, ...series.map(([, label, c]) => ({ label, stroke: color(c), width: 1.5, points: { show: false } }))],
      }, made.current?.data || [[]], el);
      made.current.setData(gaps(usage, series.map(([name]) => name)));
    };
    draw();
    const resize = new ResizeObserver(() => made.current?.setSize({ width: el.clientWidth, height }));
    resize.observe(el);
    const theme = new MutationObserver(draw);
    theme.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    observers = [resize, theme];
    const system = matchMedia('(prefers-color-scheme: dark)');
    system.addEventListener('change', draw);
    return () => {
      gone = true;
      system.removeEventListener('change', draw);
      observers.forEach((o) => o.disconnect());
      made.current?.destroy();
      made.current = undefined;
    };
  }, [some]);
  useEffect(() => {
    made.current?.setData(gaps(usage, series.map(([name]) => name)));
  }, [usage]);
  const words = series.map(([name, label]) => `${label} ${last(name) === undefined ? T.common.unknown : format(last(name))}`).join(', ');
  return (
    <figure class="chart">
      <figcaption>
        <span class="dim">{title}</span>
        {some && series.map(([name, label, c]) => <span key={name} class="key"><i class={'swatch ' + c.slice(2)} />{series.length > 1 && label} <b class="num">{format(last(name))}</b></span>)}
      </figcaption>
      {some ? <div ref={box} class="plot" role="img" aria-label={`${title}: ${words}`} data-points={usage.at.length} /> : <p class="dim">{T.usage.soon}</p>}
    </figure>
  );
}

// gaps puts nothing where nothing was measured, so that no line is drawn through it.
function gaps(usage, names) {
  const at = [], values = names.map(() => []);
  usage.at.forEach((t, i) => {
    if (i && t - usage.at[i - 1] > 3 * usage.everySeconds) {
      at.push(usage.at[i - 1] + 1);
      values.forEach((v) => v.push(null));
    }
    at.push(t);
    names.forEach((name, k) => values[k].push(usage.series[name]?.[i] ?? null));
  });
  return [at, ...values];
}
