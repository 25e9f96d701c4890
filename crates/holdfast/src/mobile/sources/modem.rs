// SPDX-License-Identifier: Apache-2.0
//! The interface's modem: ModemManager reports its state and its signal on the system's bus.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::StreamExt as _;
use holdfast_core::LinkEvent;
use tokio::time::MissedTickBehavior;
use zbus::fdo::{DBusProxy, NameOwnerChangedStream, ObjectManagerProxy, PropertiesProxy};
use zbus::names::{InterfaceName, OwnedUniqueName};
use zbus::{Connection, MatchRule, Message, MessageStream, ObjectPath, OwnedVariant, message};

use super::{Reporter, SourceEvent, SourceTask};
use crate::settings::ModemChoice;

const SERVICE: &str = "org.freedesktop.ModemManager1";
const ROOT: &str = "/org/freedesktop/ModemManager1";
const MODEM: &str = "org.freedesktop.ModemManager1.Modem";
const SIGNAL: &str = "org.freedesktop.ModemManager1.Modem.Signal";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const BUS_ENDED: &str = "sources.modem: the system's D-Bus has closed the connection";
/// How long ModemManager may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A message names at most this many modems.
const SHOWN_MAX: usize = 8;

/// `MM_MODEM_STATE_CONNECTED`.
const STATE_CONNECTED: i32 = 11;
/// Names of `MMModemState`, from -1 on.
const STATES: [&str; 13] = [
    "failed",
    "unknown",
    "initializing",
    "locked",
    "disabled",
    "disabling",
    "enabling",
    "enabled",
    "searching",
    "registered",
    "disconnecting",
    "connecting",
    "connected",
];
/// Properties of the interface for signals, and the entry with the level in dBm. The newest technology
/// is first: its level counts.
const LEVELS: [(&str, &str); 5] = [
    ("Nr5g", "rsrp"),
    ("Lte", "rsrp"),
    ("Umts", "rscp"),
    ("Gsm", "rssi"),
    ("Cdma", "rssi"),
];
/// Some modems report a missing value by a number far below any signal.
const LEVEL_MIN_DBM: f64 = -200.0;

type Values = HashMap<String, OwnedVariant>;

/// ModemManager.
pub(super) struct ModemSource {
    interface: String,
    choice: ModemChoice,
    poll: Duration,
    /// The bus, if it is not the system's.
    bus: Option<String>,
}

impl ModemSource {
    pub(super) fn new(interface: &str, choice: ModemChoice, poll: Duration) -> Self {
        Self {
            interface: interface.to_owned(),
            choice,
            poll,
            bus: None,
        }
    }

    async fn connect(&self) -> anyhow::Result<Connection> {
        connect(self.bus.as_deref()).await
    }

    fn poll_seconds(&self) -> u32 {
        self.poll.as_secs_f64().ceil().max(1.0) as u32
    }

    /// Reports the changes of the modem, until something fails or the daemon ends.
    async fn watch(
        &self,
        bus: &Connection,
        path: &ObjectPath<'_>,
        mut owners: NameOwnerChangedStream,
        reporter: &Reporter,
    ) -> anyhow::Result<Infallible> {
        let names = DBusProxy::new(bus).await?;
        // Any program on the bus can send such a message: only messages of the owner count.
        let owner = names.get_name_owner(SERVICE.try_into()?).await?;
        let mut changes = changes(bus, path).await?;
        let manager = ObjectManagerProxy::new(bus, SERVICE, ROOT).await?;
        let mut removed = manager.receive_interfaces_removed().await?;
        let mut modem = Modem::default();
        let first = self.begin(bus, path, &mut modem).await?;
        reporter.report(SourceEvent::Runs).await?;
        for event in first {
            reporter.report(event).await?;
        }
        let mut poll = tokio::time::interval(Duration::from_secs(self.poll_seconds().into()));
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = changes.next() => {
                    let message = message.context(BUS_ENDED)??;
                    let Some((interface, values)) = changed(&message, &owner) else { continue };
                    for event in modem.handle(&interface, &values) {
                        reporter.report(event).await?;
                    }
                }
                // ModemManager does not report an unchanged level, but it is a sample too.
                _ = poll.tick(), if modem.level().is_some() => {
                    let values = all(bus, path, SIGNAL).await?;
                    for event in modem.handle(SIGNAL, &values) {
                        reporter.report(event).await?;
                    }
                }
                ended = reporter.closed() => return ended,
                owner = owners.next() => {
                    owner.context(BUS_ENDED)?;
                    bail!("sources.modem: ModemManager has ended or restarted");
                }
                object = removed.next() => {
                    if *object.context(BUS_ENDED)?.args()?.object_path() == *path {
                        reporter.report(SourceEvent::Link(LinkEvent::Down)).await?;
                        bail!("sources.modem: ModemManager has removed the modem");
                    }
                }
            }
        }
    }

    /// Makes ModemManager poll the signal, and reads the present state.
    async fn begin(
        &self,
        bus: &Connection,
        path: &ObjectPath<'_>,
        modem: &mut Modem,
    ) -> anyhow::Result<Vec<SourceEvent>> {
        let problem = set_signal_rate(bus, path, self.poll_seconds()).await.err();
        let mut events = modem.handle(MODEM, &all(bus, path, MODEM).await?);
        if let Some(problem) = problem {
            let text = format!("sources.modem: the modem reports no signal in dBm: {problem}");
            events.push(SourceEvent::Note(text));
        } else {
            events.extend(modem.handle(SIGNAL, &all(bus, path, SIGNAL).await?));
        }
        Ok(events)
    }

    /// The path of the modem.
    async fn find(&self, bus: &Connection) -> anyhow::Result<String> {
        let modems = modems(bus).await?;
        if let ModemChoice::Path(path) = &self.choice {
            if !modems.contains_key(path) {
                bail!(
                    "sources.modem = \"{path}\": ModemManager has no such modem; it has {:?}",
                    modems.keys().take(SHOWN_MAX).collect::<Vec<_>>()
                );
            }
            return Ok(path.clone());
        }
        let mut found = modems
            .iter()
            .filter(|(_, ports)| ports.contains(&self.interface));
        let found = found.next().map(|(path, _)| path.clone());
        found.with_context(|| {
            format!(
                "sources.modem = \"auto\": no modem of ModemManager has the interface {}; takes \
                 one of {:?}",
                self.interface,
                modems.keys().take(SHOWN_MAX).collect::<Vec<_>>()
            )
        })
    }
}

/// The bus at this address, or the system's.
async fn connect(address: Option<&str>) -> anyhow::Result<Connection> {
    let connection = match address {
        Some(address) => zbus::connection::Builder::address(address),
        None => zbus::connection::Builder::system(),
    };
    let connection = connection.method_timeout(ANSWER_WITHIN);
    let bus = tokio::time::timeout(ANSWER_WITHIN, connection.build()).await;
    let bus = bus.context("sources.modem: the system's D-Bus does not answer")?;
    // The error's text has its cause.
    bus.map_err(|error| anyhow::anyhow!("sources.modem: no system D-Bus: {error}"))
}

/// The modems of ModemManager by D-Bus path, with the names of their ports.
async fn modems(bus: &Connection) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let manager = ObjectManagerProxy::new(bus, SERVICE, ROOT).await?;
    let objects = manager.get_managed_objects().await;
    let objects = objects.context("sources.modem: ModemManager does not answer; is it running?")?;
    let modems = objects.into_iter().filter_map(|(path, interfaces)| {
        let mut interfaces = interfaces.into_iter();
        let (_, values) = interfaces.find(|(name, _)| name.as_str() == MODEM)?;
        Some((path.to_string(), ports(&values).unwrap_or_default()))
    });
    Ok(modems.collect())
}

/// The path of the modem that the source would watch.
///
/// Errors: as those of the source.
pub(in crate::mobile) fn find_modem(
    interface: &str,
    choice: ModemChoice,
) -> anyhow::Result<String> {
    let source = ModemSource::new(interface, choice, Duration::ZERO);
    now(async { source.find(&source.connect().await?).await })
}

/// The names of all ports of all modems that ModemManager has.
///
/// Errors: no bus, no ModemManager.
pub(crate) fn modem_interfaces() -> anyhow::Result<Vec<String>> {
    let modems = now(async { modems(&connect(None).await?).await })?;
    Ok(modems.into_values().flatten().collect())
}

/// Waits for a query of the bus, outside the daemon.
fn now<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build()?;
    runtime.block_on(work)
}

/// The names of a modem's ports.
fn ports(values: &Values) -> Option<Vec<String>> {
    let ports = values.get("Ports")?.try_clone().ok()?;
    let ports = Vec::<(String, u32)>::try_from(ports).ok()?;
    Some(ports.into_iter().map(|(name, _)| name).collect())
}

impl SourceTask for ModemSource {
    async fn run(&mut self, reporter: &Reporter) -> anyhow::Result<Infallible> {
        let bus = self.connect().await?;
        let names = DBusProxy::new(&bus).await?;
        let owners = names
            .receive_name_owner_changed_with_args(&[(0, SERVICE)])
            .await?;
        let path = self.find(&bus).await?;
        let path = ObjectPath::try_from(path).context("sources.modem: no D-Bus path")?;
        let Err(error) = self.watch(&bus, &path, owners, reporter).await;
        if reporter.is_connected().is_err() {
            // Otherwise ModemManager would poll on. It may have ended itself.
            let _ = set_signal_rate(&bus, &path, 0).await;
        }
        Err(error)
    }
}

/// Notifications of the modem's changed properties.
async fn changes(bus: &Connection, path: &ObjectPath<'_>) -> zbus::Result<MessageStream> {
    let rule = MatchRule::builder()
        .msg_type(message::Type::Signal)
        .sender(SERVICE)
        .path(path.clone())
        .interface(PROPERTIES)
        .member("PropertiesChanged")
        .build()?;
    MessageStream::for_match_rule(rule, bus, None).await
}

/// Makes ModemManager poll the modem's signal at this interval; 0: no more.
async fn set_signal_rate(
    bus: &Connection,
    path: &ObjectPath<'_>,
    seconds: u32,
) -> zbus::Result<()> {
    let called = bus.call_method(Some(SERVICE), path, Some(SIGNAL), "Setup", &seconds);
    called.await.map(drop)
}

async fn all(bus: &Connection, path: &ObjectPath<'_>, interface: &str) -> anyhow::Result<Values> {
    let properties = PropertiesProxy::new(bus, SERVICE, path.clone()).await?;
    let name = InterfaceName::try_from(interface)?;
    Ok(properties.get_all(name).await?)
}

/// The interface and the changed properties in a message of the name's owner.
fn changed(message: &Message, owner: &OwnedUniqueName) -> Option<(String, Values)> {
    if message.header().sender()? != owner {
        return None;
    }
    let body = message.body();
    let (interface, values, _) = body.deserialize::<(String, Values, Vec<String>)>().ok()?;
    Some((interface, values))
}

/// The known state of the modem.
#[derive(Debug, Default)]
struct Modem {
    state: Option<i32>,
    technologies: Option<u32>,
    /// The level of each of [`LEVELS`], dBm.
    levels: [Option<f64>; LEVELS.len()],
}

impl Modem {
    /// Handles the values of properties; returns the events.
    fn handle(&mut self, interface: &str, values: &Values) -> Vec<SourceEvent> {
        match interface {
            MODEM => self.handle_modem(values),
            SIGNAL => self.handle_signal(values),
            _ => Vec::new(),
        }
    }

    fn handle_modem(&mut self, values: &Values) -> Vec<SourceEvent> {
        let mut events = Vec::new();
        let technologies = values.get("AccessTechnologies");
        if let Some(technologies) = technologies.and_then(|value| u32::try_from(value).ok()) {
            let before = self.technologies.replace(technologies);
            if before.is_some_and(|before| before != technologies) {
                let text = format!("access technologies {technologies:#x}");
                events.push(SourceEvent::Note(text));
            }
        }
        let state = values.get("State");
        if let Some(state) = state.and_then(|value| i32::try_from(value).ok()) {
            let before = self.state.replace(state);
            if before == Some(state) {
                return events;
            }
            let was = before.map_or(String::new(), |before| format!(", was {}", name(before)));
            events.push(SourceEvent::Note(format!("modem {}{was}", name(state))));
            let connected = |state| state == STATE_CONNECTED;
            if connected(state) {
                events.push(SourceEvent::Lifted);
            } else if before.is_none_or(connected) {
                events.push(SourceEvent::Link(LinkEvent::Down));
            }
        }
        events
    }

    fn handle_signal(&mut self, values: &Values) -> Vec<SourceEvent> {
        let mut is_reported = false;
        for (index, (technology, name)) in LEVELS.iter().enumerate() {
            if let Some(entries) = values.get(*technology) {
                self.levels[index] = level(entries, name);
                is_reported = true;
            }
        }
        let level = self.level().filter(|_| is_reported);
        level.map(SourceEvent::Signal).into_iter().collect()
    }

    /// The level of the newest technology that has one, dBm.
    fn level(&self) -> Option<f64> {
        self.levels.iter().copied().flatten().next()
    }
}

fn name(state: i32) -> &'static str {
    let index = usize::try_from(state + 1).ok();
    index
        .and_then(|index| STATES.get(index))
        .unwrap_or(&"in an unknown state")
}

/// A technology's level, dBm.
fn level(entries: &OwnedVariant, name: &str) -> Option<f64> {
    let entries = entries.try_clone().ok()?;
    let entries = HashMap::<String, OwnedVariant>::try_from(entries).ok()?;
    let dbm = entries
        .get(name)
        .and_then(|value| f64::try_from(value).ok())?;
    (LEVEL_MIN_DBM..0.0).contains(&dbm).then_some(dbm)
}

#[cfg(test)]
mod tests;
