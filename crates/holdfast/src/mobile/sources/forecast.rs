// SPDX-License-Identifier: Apache-2.0
//! Signals of the sources, and the warnings that their trends are.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::link_prediction::LinkPredictor;
use holdfast_wire::Instant;

use super::SourceKind;
use crate::settings::SourceSettings;

/// What of a source's signal is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::mobile) struct SignalView {
    /// The newest, dBm.
    pub(in crate::mobile) dbm: Option<f64>,
    /// How many there were.
    pub(in crate::mobile) samples: u64,
    /// Warnings that came of them.
    pub(in crate::mobile) warnings: u64,
}

/// The trends of all sources' signals.
#[derive(Debug)]
pub(in crate::mobile) struct Forecast {
    settings: SourceSettings,
    predictors: BTreeMap<SourceKind, LinkPredictor>,
    views: BTreeMap<SourceKind, SignalView>,
}

impl Forecast {
    /// Without signals.
    pub(in crate::mobile) fn new(settings: &SourceSettings) -> Self {
        Self {
            settings: settings.clone(),
            predictors: BTreeMap::new(),
            views: BTreeMap::new(),
        }
    }

    /// A signal. A warning if the link is about to go: in how long; zero: at any moment.
    pub(in crate::mobile) fn handle_signal(
        &mut self,
        source: SourceKind,
        dbm: f64,
        now: Instant,
    ) -> Option<Duration> {
        let view = self.views.entry(source).or_default();
        view.dbm = Some(dbm);
        view.samples += 1;
        let settings = match source {
            SourceKind::Wifi => self.settings.wifi_prediction,
            _ => self.settings.modem_prediction,
        }?;
        let predictor = self.predictors.entry(source);
        let predictor = predictor.or_insert_with(|| LinkPredictor::new(settings));
        let warning = predictor.handle_sample(dbm, now);
        view.warnings = predictor.warnings();
        warning
    }

    /// The link carries again, or no longer.
    pub(in crate::mobile) fn handle_link(&mut self, carries: bool) {
        for predictor in self.predictors.values_mut() {
            predictor.handle_link(carries);
        }
    }

    /// What follows is another radio's signal.
    pub(in crate::mobile) fn forget(&mut self, source: SourceKind) {
        if let Some(predictor) = self.predictors.get_mut(&source) {
            predictor.forget();
        }
    }

    /// What is shown of a source's signal.
    pub(in crate::mobile) fn view(&self, source: SourceKind) -> SignalView {
        self.views.get(&source).copied().unwrap_or_default()
    }
}
