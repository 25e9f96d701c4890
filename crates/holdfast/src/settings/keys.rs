// SPDX-License-Identifier: Apache-2.0
//! The keys of the settings files, with the texts for errors and pages.
//!
//! Names and order come from the structs of `holdfast-settings`, what a key takes from its kind,
//! its default from the struct's `Default`, and the texts from its comment.

use std::sync::LazyLock;

use holdfast_files::document::{keys_of, takes_of};
use holdfast_settings::bandwidth::BandwidthSettings;
use holdfast_settings::docs::{self, KeyDocs};
use holdfast_settings::gateway::{EngineSettings, GatewayDaemon};
use holdfast_settings::handoff::{HandoffSettings, HandoffStation};
use holdfast_settings::keep::KeepSettings;
use holdfast_settings::metrics::MetricsSettings;
use holdfast_settings::mobile::{MobileDaemon, MobileHostSettings};
use holdfast_settings::mtcp::{MtcpChoice, MtcpCompression, MtcpSettings};
use holdfast_settings::signals::{MobileEntry, SignalSettings};
use holdfast_settings::snoop::SnoopSettings;
use holdfast_settings::sources::Sources;
use holdfast_settings::web::WebSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Table;

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name in its section.
    pub(crate) name: &'static str,
    /// Completes the sentence that begins with "takes".
    pub(crate) takes: String,
    /// Its default as TOML, if it has one.
    pub(crate) default: Option<String>,
    /// A value as TOML.
    pub(crate) example: String,
    /// What it means.
    pub(crate) meaning: String,
    /// What more of it costs, or less.
    pub(crate) cost: String,
}

/// A section of a settings file.
#[derive(Debug)]
pub(crate) struct Section {
    /// Its name.
    pub(crate) name: &'static str,
    /// Whether it is written `[[name]]`, any number of times.
    pub(crate) is_repeated: bool,
    /// Its title on the pages.
    pub(crate) title: &'static str,
    /// A paragraph about it.
    pub(crate) text: &'static str,
    /// The page of docs/ with more about it.
    pub(crate) page: Option<&'static str>,
    /// Its keys.
    pub(crate) keys: Vec<Key>,
}

/// The file of `holdfast gateway`.
pub(crate) static GATEWAY_FILE: LazyLock<Vec<Section>> = LazyLock::new(|| {
    vec![
        section("gateway", "The gateway", "The file of `holdfast gateway`.")
            .with::<GatewayDaemon>()
            .with::<EngineSettings>(),
        section(
            "bandwidth",
            "The cells",
            "The rates of the cells, for all schemes that send from the cache.",
        )
        .more("schemes/mtcp.md#bandwidth-management")
        .with::<BandwidthSettings>(),
        section(
            "mtcp",
            "The scheme `mtcp`",
            "States, timers and the paper have a page of their own.",
        )
        .more("schemes/mtcp.md")
        .with::<MtcpChoice>()
        .with::<MtcpSettings>()
        .with::<MtcpCompression>(),
        section(
            "snoop",
            "The scheme `snoop`",
            "Names of parameters and their values are those of the paper (Balakrishnan, Seshan, \
             Amir and Katz, 1995), where it has them.",
        )
        .more("schemes/snoop.md")
        .with::<SnoopSettings>(),
        keep(),
        section(
            "signals",
            "Link signals",
            "How mobiles signal the state of their links.",
        )
        .more("link-signals.md")
        .with::<SignalSettings>(),
        metrics(),
        web(),
        section(
            "handoff",
            "Handoff",
            "Several gateways as base stations, between which mobiles move. Without `name` there is \
             no handoff.",
        )
        .more("schemes/handoff.md")
        .with::<HandoffStation>()
        .with::<HandoffSettings>(),
        Section {
            is_repeated: true,
            ..section(
                "mobile",
                "The mobiles",
                "One section for each mobile that sends signals, at most 4096. Mobiles without one \
                 are served too: the gateway detects their outages by the interface and by silence.",
            )
            .with::<MobileEntry>()
        },
    ]
});

/// The file of `holdfast mobile`.
pub(crate) static MOBILE_FILE: LazyLock<Vec<Section>> = LazyLock::new(|| {
    vec![
        section(
            "mobile",
            "The mobile's own file",
            "The file of `holdfast mobile` is another one, on the mobile itself.",
        )
        .with::<MobileDaemon>()
        .with::<MobileHostSettings>(),
        keep(),
        section(
            "sources",
            "The mobile's link sources",
            "In the mobile's own file: the link sources beside the interface's carrier.",
        )
        .more("link-signals.md#sources")
        .with::<Sources>(),
        metrics(),
        web(),
    ]
});

/// The sections of both files; `[keep]`, `[metrics]` and `[web]`, which both have, once.
pub(crate) fn all_sections() -> impl Iterator<Item = &'static Section> {
    let is_shared = |section: &&Section| matches!(section.name, "keep" | "metrics" | "web");
    let own = MOBILE_FILE
        .iter()
        .filter(move |section| !is_shared(section));
    GATEWAY_FILE.iter().chain(own)
}

fn keep() -> Section {
    section(
        "keep",
        "The scheme `keep`, and `auto` for all but TCP",
        "In the gateway's file and in the mobile's own.",
    )
    .more("schemes/keep.md")
    .with::<KeepSettings>()
}

fn metrics() -> Section {
    section(
        "metrics",
        "Metrics",
        "In the gateway's file and in the mobile's own: what a monitoring system reads.",
    )
    .more("metrics.md")
    .with::<MetricsSettings>()
}

fn web() -> Section {
    section(
        "web",
        "The live page",
        "In the gateway's file and in the mobile's own.",
    )
    .more("web.md")
    .with::<WebSettings>()
}

fn section(name: &'static str, title: &'static str, text: &'static str) -> Section {
    Section {
        name,
        is_repeated: false,
        title,
        text,
        page: None,
        keys: Vec::new(),
    }
}

impl Section {
    /// Its header.
    pub(crate) fn header(&self) -> String {
        if self.is_repeated {
            format!("[[{}]]", self.name)
        } else {
            format!("[{}]", self.name)
        }
    }

    fn more(mut self, page: &'static str) -> Self {
        self.page = Some(page);
        self
    }

    /// The section with the keys of a struct besides.
    fn with<T: Default + Serialize + DeserializeOwned>(mut self) -> Self {
        let defaults = Table::try_from(T::default()).unwrap_or_default();
        let (structure, names) = keys_of::<T>();
        self.keys.extend(names.iter().map(|name| {
            let KeyDocs {
                meaning,
                cost,
                example,
            } = docs::of_key(structure, name).unwrap_or_default();
            let default = defaults.get(*name).map(ToString::to_string);
            Key {
                name,
                takes: takes_of::<T>(name),
                example: example.or(default.clone()).unwrap_or_default(),
                default,
                meaning,
                cost,
            }
        }));
        self
    }
}

impl Key {
    /// What the key takes, with an example.
    pub(crate) fn takes(&self) -> String {
        format!("takes {}, for example {}", self.takes, self.example)
    }
}
