// SPDX-License-Identifier: Apache-2.0
// Makes a Perses dashboard of a Grafana board, as far as dist/grafana/holdfast.json needs it.

const PANELS = {
  timeseries: ['TimeSeriesChart', timeSeries],
  stat: ['StatChart', stat],
  // The bars of Perses have the order of their values, those of Grafana the order of the queries.
  bargauge: ['BarChart', bars],
};
const UNITS = { short: 'decimal', s: 'seconds', bytes: 'bytes' };
const CALCULATIONS = { lastNotNull: 'last-number', max: 'max' };

function known(table, name) {
  if (!(name in table)) throw new Error(`convert.js does not know ${name}`);
  return table[name];
}

function format({ unit, decimals }) {
  return { unit: known(UNITS, unit), shortValues: true, decimalPlaces: decimals };
}

function stat(panel, { thresholds, color }) {
  const steps = (thresholds?.steps ?? []).map((step) => ({ value: step.value ?? 0, color: step.color }));
  const fixed = color.mode === 'fixed' ? { defaultColor: color.fixedColor } : {};
  return {
    calculation: known(CALCULATIONS, panel.options.reduceOptions.calcs[0]),
    format: format(panel.fieldConfig.defaults),
    thresholds: { steps, ...fixed },
  };
}

function bars(panel, defaults) {
  const calculation = known(CALCULATIONS, panel.options.reduceOptions.calcs[0]);
  return { calculation, format: format(defaults), mode: 'value' };
}

function timeSeries(panel, defaults) {
  const { custom } = defaults;
  const legend = panel.options.legend ?? {};
  return {
    legend: {
      position: legend.placement ?? 'bottom',
      mode: legend.displayMode ?? 'list',
      values: (legend.calcs ?? []).map((name) => known(CALCULATIONS, name)),
    },
    yAxis: { format: format(defaults), min: defaults.min, max: defaults.max },
    visual: {
      display: custom.drawStyle,
      lineWidth: custom.lineWidth,
      areaOpacity: custom.fillOpacity / 100,
    },
  };
}

function convertPanel(panel) {
  const queries = panel.targets.map(({ expr, legendFormat }) => ({
    kind: 'TimeSeriesQuery',
    spec: { plugin: { kind: 'PrometheusTimeSeriesQuery', spec: { query: expr, seriesNameFormat: legendFormat } } },
  }));
  const [kind, options] = known(PANELS, panel.type);
  const plugin = { kind, spec: options(panel, panel.fieldConfig.defaults) };
  const display = { name: panel.title, description: panel.description };
  return { kind: 'Panel', spec: { display, plugin, queries } };
}

function convertVariable(variable) {
  const [, matcher, labelName] = /^label_values\((.*), (\w+)\)$/.exec(variable.query.query);
  return {
    kind: 'ListVariable',
    spec: {
      name: variable.name,
      display: { name: variable.label },
      allowMultiple: variable.multi,
      allowAllValue: variable.includeAll,
      customAllValue: variable.allValue,
      defaultValue: variable.current.value,
      plugin: { kind: 'PrometheusLabelValuesVariable', spec: { labelName, matchers: [matcher] } },
    },
  };
}

// A row of Grafana and the panels below it are a grid of Perses, whose y begins at 0.
function convertRows(panels) {
  const grids = [];
  for (const { id, type, title, gridPos } of panels) {
    if (type === 'row') {
      grids.push({ kind: 'Grid', spec: { display: { title, collapse: { open: true } }, items: [] }, y: gridPos.y + 1 });
      continue;
    }
    const { x, y, w: width, h: height } = gridPos;
    const grid = grids[grids.length - 1];
    grid.spec.items.push({ x, y: y - grid.y, width, height, content: { $ref: `#/spec/panels/${id}` } });
  }
  return grids.map(({ kind, spec }) => ({ kind, spec }));
}

export function convert(board, prometheus) {
  const panels = board.panels.filter((panel) => panel.type !== 'row');
  return {
    kind: 'Dashboard',
    metadata: { name: board.title, project: board.title, version: 0 },
    spec: {
      duration: '1m',
      refreshInterval: '0s',
      datasources: { prometheus: { default: true, plugin: { kind: 'PrometheusDatasource', spec: prometheus } } },
      variables: board.templating.list.filter((variable) => variable.type === 'query').map(convertVariable),
      panels: Object.fromEntries(panels.map((panel) => [panel.id, convertPanel(panel)])),
      layouts: convertRows(board.panels),
    },
  };
}
