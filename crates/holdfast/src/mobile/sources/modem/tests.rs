// SPDX-License-Identifier: Apache-2.0
//! The source on a private D-Bus with a fake ModemManager.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use tokio::sync::mpsc::{self, Receiver};
use zbus::object_server::InterfaceRef;

use super::super::{LinkSource, Report, keep};
use super::*;

const LIMIT: Duration = Duration::from_secs(60);
const PATH: &str = "/org/freedesktop/ModemManager1/Modem/3";
const CONNECTED: i32 = STATE_CONNECTED;
const REGISTERED: i32 = 8;

/// A private `dbus-daemon`; dropping this ends it.
struct Bus {
    process: Child,
    address: String,
    _config: tempfile::NamedTempFile,
}

impl Bus {
    fn start(test: &str) -> Option<Self> {
        let mut config = tempfile::NamedTempFile::new().expect("a file");
        let text = "<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen>\
            <policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/>\
            <allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>";
        config.write_all(text.as_bytes()).expect("written");
        let mut command = Command::new("dbus-daemon");
        command.arg("--nofork").arg("--print-address=1");
        command.arg(format!("--config-file={}", config.path().display()));
        let Ok(mut process) = command.stdout(Stdio::piped()).spawn() else {
            eprintln!("SKIPPED {test}: no dbus-daemon");
            return None;
        };
        let mut address = String::new();
        let output = process.stdout.take().expect("its output");
        BufReader::new(output)
            .read_line(&mut address)
            .expect("its address");
        Some(Self {
            process,
            address: address.trim().to_owned(),
            _config: config,
        })
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The properties of `org.freedesktop.ModemManager1.Modem` that the source reads.
struct FakeModem {
    state: i32,
    technologies: u32,
}

#[zbus::interface(name = "org.freedesktop.ModemManager1.Modem")]
impl FakeModem {
    #[zbus(property)]
    fn state(&self) -> i32 {
        self.state
    }

    #[zbus(property)]
    fn access_technologies(&self) -> u32 {
        self.technologies
    }

    #[zbus(property)]
    #[expect(clippy::unused_self, reason = "zbus gives it to each property")]
    fn ports(&self) -> Vec<(String, u32)> {
        vec![("cdc-wdm0".into(), 6), ("wwan0".into(), 2)]
    }
}

/// `org.freedesktop.ModemManager1.Modem.Signal`.
#[derive(Default)]
struct FakeSignal {
    rate: u32,
    rsrp: Option<f64>,
}

#[zbus::interface(name = "org.freedesktop.ModemManager1.Modem.Signal")]
impl FakeSignal {
    fn setup(&mut self, rate: u32) {
        self.rate = rate;
    }

    #[zbus(property)]
    fn lte(&self) -> HashMap<String, OwnedVariant> {
        let rsrp = self
            .rsrp
            .map(|dbm| ("rsrp".to_owned(), OwnedVariant::from(dbm)));
        rsrp.into_iter().collect()
    }
}

/// A modem on the bus, and the source's reports.
struct World {
    service: Connection,
    reports: Receiver<Report>,
    task: tokio::task::JoinHandle<()>,
}

impl World {
    async fn service(bus: &Bus, state: i32) -> Connection {
        let technologies = 1 << 14;
        let modem = FakeModem {
            state,
            technologies,
        };
        let service = zbus::connection::Builder::address(bus.address.as_str());
        let service = service
            .serve_at(ROOT, zbus::fdo::ObjectManager)
            .serve_at(PATH, modem)
            .serve_at(PATH, FakeSignal::default())
            .name(SERVICE);
        service.build().await.expect("on the bus")
    }

    async fn new(bus: &Bus, choice: ModemChoice, state: i32) -> Self {
        let service = Self::service(bus, state).await;
        let (sender, reports) = mpsc::channel(8);
        let source = LinkSource::Modem;
        let mut modem = ModemSource::new("wwan0", choice, Duration::from_millis(1_500));
        modem.bus = Some(bus.address.clone());
        let task = tokio::spawn(keep(
            modem,
            Reporter {
                source,
                reports: sender,
            },
        ));
        Self {
            service,
            reports,
            task,
        }
    }

    async fn next(&mut self) -> SourceEvent {
        let report = tokio::time::timeout(LIMIT, self.reports.recv()).await;
        report.expect("in time").expect("a report").event
    }

    /// Takes events until this one.
    async fn await_event(&mut self, wanted: &SourceEvent) {
        while self.next_event().await != *wanted {}
    }

    /// The next event that is not a note.
    async fn next_event(&mut self) -> SourceEvent {
        loop {
            let event = self.next().await;
            if !matches!(event, SourceEvent::Note(_)) {
                return event;
            }
        }
    }

    async fn modem(&self) -> InterfaceRef<FakeModem> {
        self.service
            .object_server()
            .interface(PATH)
            .await
            .expect("the modem")
    }

    async fn set_state(&self, state: i32) {
        let modem = self.modem().await;
        modem.get_mut().await.state = state;
        let emitter = modem.signal_emitter();
        modem
            .get()
            .await
            .state_changed(emitter)
            .await
            .expect("notified");
    }

    async fn set_rsrp(&self, dbm: f64) {
        let server = self.service.object_server();
        let signal: InterfaceRef<FakeSignal> = server.interface(PATH).await.expect("it");
        signal.get_mut().await.rsrp = Some(dbm);
        let emitter = signal.signal_emitter();
        signal
            .get()
            .await
            .lte_changed(emitter)
            .await
            .expect("notified");
    }
}

fn run(test: &str, body: impl AsyncFnOnce(&Bus)) {
    let Some(bus) = Bus::start(test) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(body(&bus));
}

#[test]
fn the_source_finds_the_interfaces_modem_and_reports_its_state_as_the_links() {
    let test = "the_source_finds_the_interfaces_modem_and_reports_its_state_as_the_links";
    run(test, async |bus| {
        let mut world = World::new(bus, ModemChoice::OfInterface, CONNECTED).await;
        assert_eq!(world.next().await, SourceEvent::Runs);
        assert_eq!(
            world.next().await,
            SourceEvent::Note("modem connected".into())
        );
        assert_eq!(
            world.next().await,
            SourceEvent::Lifted,
            "an older report of link down ends"
        );
        world.set_state(REGISTERED).await;
        let SourceEvent::Note(note) = world.next().await else {
            panic!("a note");
        };
        assert_eq!(note, "modem registered, was connected");
        assert_eq!(world.next().await, SourceEvent::Link(LinkEvent::Down));
        world.set_state(10).await;
        world.set_state(CONNECTED).await;
        assert_eq!(world.next_event().await, SourceEvent::Lifted);
    });
}

#[test]
fn a_modem_without_a_connection_at_the_start_is_an_outage() {
    let test = "a_modem_without_a_connection_at_the_start_is_an_outage";
    run(test, async |bus| {
        let mut world = World::new(bus, ModemChoice::OfInterface, REGISTERED).await;
        assert_eq!(world.next().await, SourceEvent::Runs);
        assert_eq!(world.next_event().await, SourceEvent::Link(LinkEvent::Down));
    });
}

#[test]
fn the_source_ignores_other_senders_on_the_bus() {
    let test = "the_source_ignores_other_senders_on_the_bus";
    run(test, async |bus| {
        let mut world = World::new(bus, ModemChoice::OfInterface, CONNECTED).await;
        world.await_event(&SourceEvent::Lifted).await;
        let other = zbus::connection::Builder::address(bus.address.as_str());
        let other = other.build().await.expect("on the bus");
        let names = DBusProxy::new(&other).await.expect("the bus");
        let state = HashMap::from([("State", zbus::Variant::from(REGISTERED))]);
        let body = (MODEM, state, Vec::<String>::new());
        // Any program may send a message to one receiver.
        for name in names.list_names().await.expect("names") {
            if name.as_str().starts_with(':') {
                let sent = other.emit_signal(
                    Some(name.as_str()),
                    PATH,
                    PROPERTIES,
                    "PropertiesChanged",
                    &body,
                );
                sent.await.expect("sent");
            }
        }
        // The modem's own report arrives after it.
        world.set_rsrp(-91.0).await;
        assert_eq!(world.next_event().await, SourceEvent::Signal(-91.0));
    });
}

#[test]
fn the_signal_is_polled_and_each_value_is_a_sample() {
    let test = "the_signal_is_polled_and_each_value_is_a_sample";
    run(test, async |bus| {
        let choice = ModemChoice::Path(PATH.into());
        let mut world = World::new(bus, choice, CONNECTED).await;
        world.await_event(&SourceEvent::Lifted).await;
        let server = world.service.object_server();
        let signal: InterfaceRef<FakeSignal> = server.interface(PATH).await.expect("it");
        assert_eq!(signal.get().await.rate, 2, "1.5 s, rounded up");
        for dbm in [-97.5, -104.0] {
            world.set_rsrp(dbm).await;
            world.await_event(&SourceEvent::Signal(dbm)).await;
        }
        // The level stays, and each poll reports it.
        assert_eq!(world.next_event().await, SourceEvent::Signal(-104.0));
        assert_eq!(world.next_event().await, SourceEvent::Signal(-104.0));
    });
}

#[test]
fn the_signal_is_polled_no_more_when_the_daemon_has_ended() {
    let test = "the_signal_is_polled_no_more_when_the_daemon_has_ended";
    run(test, async |bus| {
        let mut world = World::new(bus, ModemChoice::OfInterface, CONNECTED).await;
        world.await_event(&SourceEvent::Lifted).await;
        let server = world.service.object_server();
        let signal: InterfaceRef<FakeSignal> = server.interface(PATH).await.expect("it");
        assert_eq!(signal.get().await.rate, 2);
        drop(world.reports);
        let ended = tokio::time::timeout(LIMIT, world.task).await;
        ended.expect("in time").expect("no panic");
        assert_eq!(signal.get().await.rate, 0);
    });
}

/// The properties of `Signal` for these technologies.
fn signal(levels: &[(&str, &str, f64)]) -> Values {
    let property = |(technology, name, dbm): &(&str, &str, f64)| {
        let entries = HashMap::from([((*name).to_owned(), OwnedVariant::from(*dbm))]);
        let entries = zbus::Variant::from(entries)
            .try_into_owned()
            .expect("no descriptor");
        ((*technology).to_owned(), entries)
    };
    levels.iter().map(property).collect()
}

#[test]
fn the_level_is_that_of_the_newest_technology() {
    let mut modem = Modem::default();
    let lte = signal(&[("Lte", "rsrp", -100.0)]);
    assert_eq!(modem.handle(SIGNAL, &lte), [SourceEvent::Signal(-100.0)]);
    let both = signal(&[("Lte", "rsrp", -101.0), ("Nr5g", "rsrp", -80.0)]);
    assert_eq!(modem.handle(SIGNAL, &both), [SourceEvent::Signal(-80.0)]);
    // Only LTE has changed.
    let lte = signal(&[("Lte", "rsrp", -103.0)]);
    assert_eq!(modem.handle(SIGNAL, &lte), [SourceEvent::Signal(-80.0)]);
    let none = signal(&[("Nr5g", "rsrp", -32_768.0)]);
    let of_lte = [SourceEvent::Signal(-103.0)];
    assert_eq!(modem.handle(SIGNAL, &none), of_lte, "5G has no value");
    let none = signal(&[("Lte", "rsrp", f64::NAN)]);
    assert_eq!(modem.handle(SIGNAL, &none), []);
}

#[test]
fn a_restarted_modem_manager_is_used_again() {
    let test = "a_restarted_modem_manager_is_used_again";
    run(test, async |bus| {
        let mut world = World::new(bus, ModemChoice::OfInterface, CONNECTED).await;
        world.await_event(&SourceEvent::Lifted).await;
        let ended = world.service.clone();
        ended.release_name(SERVICE).await.expect("released");
        ended.close().await.expect("closed");
        let SourceEvent::Failed(problem) = world.next_event().await else {
            panic!("a failure");
        };
        assert!(problem.starts_with("sources.modem"), "{problem}");
        world.service = World::service(bus, CONNECTED).await;
        // An attempt before the new service is ready may fail.
        world.await_event(&SourceEvent::Runs).await;
        world.await_event(&SourceEvent::Lifted).await;
        world.set_state(REGISTERED).await;
        assert_eq!(world.next_event().await, SourceEvent::Link(LinkEvent::Down));
    });
}

#[test]
fn an_unknown_modem_is_reported_with_the_known_ones() {
    run(
        "an_unknown_modem_is_reported_with_the_known_ones",
        async |bus| {
            let choice = ModemChoice::Path("/org/freedesktop/ModemManager1/Modem/9".into());
            let mut world = World::new(bus, choice, CONNECTED).await;
            let SourceEvent::Failed(problem) = world.next().await else {
                panic!("a failure");
            };
            assert!(
                problem.contains("sources.modem") && problem.contains(PATH),
                "{problem}"
            );
            assert!(!problem.contains('\n'), "{problem}");
        },
    );
}

#[test]
fn values_of_a_wrong_type_give_no_event() {
    let mut modem = Modem::default();
    let value = |text: &str| OwnedVariant::from(zbus::Str::from(text.to_owned()));
    for (interface, name) in [
        (MODEM, "State"),
        (MODEM, "AccessTechnologies"),
        (SIGNAL, "Lte"),
        ("org.example", "State"),
    ] {
        let values = Values::from([(name.to_owned(), value("connected"))]);
        assert_eq!(modem.handle(interface, &values), []);
    }
    let values = Values::from([("Ports".to_owned(), value("wwan0"))]);
    assert_eq!(ports(&values), None);
    assert_eq!(name(STATE_CONNECTED), "connected");
    assert_eq!(name(99), "in an unknown state");
}
