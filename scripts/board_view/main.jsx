// SPDX-License-Identifier: Apache-2.0
// Shows dist/grafana/holdfast.json with the dashboard components of Perses. Prometheus serves this page itself.

import { CssBaseline, ThemeProvider } from '@mui/material';
import { ChartsProvider, SnackbarProvider, generateChartsTheme, getTheme } from '@perses-dev/components';
import { ViewDashboard } from '@perses-dev/dashboards';
import { PluginRegistry, dynamicImportPluginLoader } from '@perses-dev/plugin-system';
import * as bars from '@perses-dev/bar-chart-plugin';
import * as prometheus from '@perses-dev/prometheus-plugin';
import * as stat from '@perses-dev/stat-chart-plugin';
import * as timeSeries from '@perses-dev/timeseries-chart-plugin';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { createRoot } from 'react-dom/client';
import { QueryParamProvider } from 'use-query-params';
import { WindowHistoryAdapter } from 'use-query-params/adapters/window';
import { convert } from './convert';

const theme = getTheme('light');
const plugins = dynamicImportPluginLoader(
  [bars, prometheus, stat, timeSeries].map((plugin) => ({
    resource: plugin.getPluginModule(),
    importPlugin: () => Promise.resolve(plugin),
  }))
);
const board = await (await fetch('holdfast.json')).json();
// As in scripts/board_test.py.
const dashboard = convert(board, { directUrl: location.origin, scrapeInterval: '1s' });
const nothing = () => Promise.resolve(undefined);
const none = () => Promise.resolve([]);
const datasources = {
  getDatasource: nothing,
  getGlobalDatasource: nothing,
  listDatasources: none,
  listGlobalDatasources: none,
};

createRoot(document.getElementById('root')).render(
  <QueryParamProvider adapter={WindowHistoryAdapter}>
    <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
      <ThemeProvider theme={theme}>
        <CssBaseline />
        <ChartsProvider chartsTheme={generateChartsTheme(theme, {})}>
          <SnackbarProvider>
            <PluginRegistry pluginLoader={plugins} defaultPluginKinds={{ Panel: 'TimeSeriesChart' }}>
              <ViewDashboard
                dashboardResource={dashboard}
                datasourceApi={datasources}
                dashboardTitleComponent={board.title}
                isReadonly
                isVariableEnabled
                isDatasourceEnabled={false}
              />
            </PluginRegistry>
          </SnackbarProvider>
        </ChartsProvider>
      </ThemeProvider>
    </QueryClientProvider>
  </QueryParamProvider>
);
