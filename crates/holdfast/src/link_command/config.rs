// SPDX-License-Identifier: Apache-2.0
//! Settings of `holdfast link`: a TOML file, then the flags on top of it.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use holdfast_files::{document, read_up_to};
use holdfast_link::{
    HalfDuplexError, LinkFile, LinkPlan, LinkSettings, OutageAt, OutageSettings, RATE_KEYS,
    SettingsError, check_half_duplex,
};
use toml::{Table, Value};

use super::LinkArgs;

/// The seed unless one is given.
const SEED_DEFAULT: u64 = 1;

/// The checked settings of the link.
#[derive(Clone, Debug)]
pub(super) struct LinkConfig {
    /// Seed of all that is random.
    pub(super) seed: u64,
    /// From the FH to the MH.
    pub(super) downlink: LinkPlan,
    /// From the MH to the FH.
    pub(super) uplink: LinkPlan,
    /// Whether one schedule holds for both directions.
    pub(super) outages_shared: bool,
    /// Whether both directions take turns on the downlink's medium.
    pub(super) half_duplex: bool,
    /// Bytes added to each packet at the link's rate.
    pub(super) frame_overhead_bytes: u32,
}

impl LinkConfig {
    /// Reads the file and the flags.
    pub(super) fn from_args(args: &LinkArgs) -> anyhow::Result<Self> {
        let origin = args
            .config
            .as_deref()
            .map_or("command line".into(), |file| file.display().to_string());
        let (mut file, mut own_uplink) = args
            .config
            .as_deref()
            .map(read_file)
            .transpose()?
            .unwrap_or_default();
        own_uplink.extend(apply_flags(&mut file, args)?);
        if file.half_duplex {
            check_half_duplex(&file.downlink, &file.uplink, |key| {
                own_uplink.contains_key(key)
            })
            .map_err(|error| explain_half_duplex(&origin, &own_uplink, &error))?;
        }
        let seed = file.seed.unwrap_or(SEED_DEFAULT);
        for (settings, direction) in [(&mut file.downlink, 1), (&mut file.uplink, 2)] {
            if let Some(model) = &mut settings.rate_model {
                model.seed_from(seed, direction);
            }
        }
        let folder = args
            .config
            .as_deref()
            .and_then(Path::parent)
            .map(Path::to_path_buf);
        let plan = |name: &str, settings: &LinkSettings| {
            settings
                .plan_with(|file| read_trace(folder.as_deref(), file))
                .map_err(|error| explain(&origin, name, error))
        };
        let downlink = plan("downlink", &file.downlink)?;
        let uplink = plan("uplink", &file.uplink)?;
        Ok(Self {
            seed,
            // Two traces of the directions' own rates make no common schedule.
            outages_shared: *downlink.outages == *uplink.outages
                && [&file.downlink, &file.uplink].map(|own| &own.outages) == [&file.outages; 2],
            downlink,
            uplink,
            half_duplex: file.half_duplex,
            frame_overhead_bytes: file.frame_overhead_bytes,
        })
    }
}

fn explain(origin: &str, direction: &str, error: SettingsError) -> anyhow::Error {
    anyhow!("{origin}: {}", error.within(direction))
}

/// `given` are the settings that are given for the uplink.
fn explain_half_duplex(origin: &str, given: &Table, error: &HalfDuplexError) -> anyhow::Error {
    let value = error
        .key
        .strip_prefix("uplink.")
        .and_then(|key| given.get(key));
    let got = value.map_or(String::new(), |value| format!("got {value}; "));
    anyhow!("{origin}: {}: {got}{}", error.key, error.problem)
}

/// Longest settings file of a link, and longest trace, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
const TRACE_BYTES_MAX: u64 = 1 << 28;

/// The file, with its settings for both directions copied to each; and its table `uplink` as written.
fn read_file(path: &Path) -> anyhow::Result<(LinkFile, Table)> {
    let text = read_up_to(path, FILE_BYTES_MAX).map_err(|error| {
        anyhow!(
            "{}: cannot be read: {error}; name another with --config",
            path.display()
        )
    })?;
    let shown = path.display().to_string();
    let mut table = document::parse(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
    let file = document::read(&table);
    let mut file: LinkFile = file.map_err(|error| anyhow!(error.explain(&shown, &table, &[])))?;
    let directions = [
        ("downlink", &mut file.downlink),
        ("uplink", &mut file.uplink),
    ];
    for (name, settings) in directions {
        // Programs write every key: `none` in a direction means the outages of both.
        if settings.outages == OutageSettings::None {
            settings.outages = file.outages.clone();
        }
        let own_effect = table.get(name).and_then(|own| own.get("outage_effect"));
        if let (None, Some(effect)) = (own_effect, file.outage_effect) {
            settings.outage_effect = effect;
        }
    }
    let uplink = table
        .remove("uplink")
        .and_then(|value| value.try_into().ok());
    Ok((file, uplink.unwrap_or_default()))
}

fn read_trace(folder: Option<&Path>, file: &str) -> Result<String, String> {
    let path = folder.map_or_else(|| PathBuf::from(file), |folder| folder.join(file));
    read_up_to(&path, TRACE_BYTES_MAX).map_err(|error| error.to_string())
}

/// Applies the flags to the file: first those for both directions, then each direction's own. Returns
/// what `--uplink` gives.
fn apply_flags(file: &mut LinkFile, args: &LinkArgs) -> anyhow::Result<Table> {
    file.seed = args.seed.or(file.seed);
    let outages = args.outage.iter().map(|text| parse_outage(text));
    let list = outages.collect::<Result<Vec<_>, _>>()?;
    if !list.is_empty() {
        file.outages = OutageSettings::List { list };
    }
    for settings in [&mut file.downlink, &mut file.uplink] {
        if let Some(rate) = args.rate {
            settings.rate_mbit_per_s = Some(rate);
            (settings.rate_trace, settings.rate_model) = (None, None);
        }
        if let Some(delay_ms) = args.delay {
            settings.delay_ms = delay_ms;
        }
        if let Some(packets) = args.queue {
            settings.queue_packets_max = Some(packets);
        }
        if let Some(loss) = args.loss {
            settings.loss = loss;
        }
        if !args.outage.is_empty() {
            settings.outages = file.outages.clone();
        }
        if let Some(effect) = args.outage_effect {
            settings.outage_effect = effect.into();
        }
    }
    overlay("--downlink", &mut file.downlink, args.downlink.as_deref())?;
    overlay("--uplink", &mut file.uplink, args.uplink.as_deref())
}

/// Applies `key = value, ...` to the settings; returns the keys with their values.
fn overlay(flag: &str, settings: &mut LinkSettings, text: Option<&str>) -> anyhow::Result<Table> {
    let Some(text) = text else {
        return Ok(Table::new());
    };
    let mut given = document::parse(&format!("given = {{ {text} }}"))
        .map_err(|_| anyhow!("{flag}: got `{text}`, takes `key = value, ...`"))?;
    let Some(Value::Table(given)) = given.remove("given") else {
        bail!("{flag}: got `{text}`, takes `key = value, ...`");
    };
    let mut table = Table::try_from(&*settings)?;
    if RATE_KEYS.iter().any(|key| given.contains_key(*key)) {
        for key in RATE_KEYS {
            table.remove(key);
        }
    }
    table.extend(given.clone());
    *settings =
        document::read(&table).map_err(|error| anyhow!(error.explain(flag, &table, &[])))?;
    Ok(given)
}

fn parse_outage(text: &str) -> anyhow::Result<OutageAt> {
    let parsed = text
        .split_once('+')
        .and_then(|(at, length)| Some((at.trim().parse().ok()?, length.trim().parse().ok()?)));
    let (at_s, for_s) = parsed.ok_or_else(|| {
        anyhow!("--outage: got `{text}`, takes begin and length in seconds, as in 4.0+3.0")
    })?;
    Ok(OutageAt { at_s, for_s })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use holdfast_link::{Capacity, OutageEffect, OutageSchedule};
    use holdfast_wire::{Duration, Instant};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: LinkArgs,
    }

    fn config(flags: &[&str]) -> anyhow::Result<LinkConfig> {
        let flags = std::iter::once("link").chain(flags.iter().copied());
        LinkConfig::from_args(&Command::try_parse_from(flags)?.args)
    }

    fn error(flags: &[&str]) -> String {
        config(flags).unwrap_err().to_string()
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn arq_on_a_half_duplex_medium_is_refused_in_one_line() {
        for direction in ["downlink", "uplink"] {
            let arq = "arq = { retransmit_after_ms = 10 }";
            let settings = file(&format!("half_duplex = true\n[{direction}]\n{arq}\n"));
            let path = settings.path().to_str().unwrap();
            let line = error(&["--config", path]);
            assert!(
                line.starts_with(&format!("{path}: arq: stands beside")),
                "{line}"
            );
            assert!(
                line.ends_with("leave one of the two out") && !line.contains('\n'),
                "{line}"
            );
            let settings = file(&format!("[{direction}]\n{arq}\n"));
            assert!(config(&["--config", settings.path().to_str().unwrap()]).is_ok());
        }
    }

    #[test]
    fn what_a_half_duplex_medium_ignores_is_refused_in_one_line() {
        let downlink = "half_duplex = true\n[downlink]\nrate_mbit_per_s = 1\ndelay_ms = 5\n";
        let own = file(&format!("{downlink}[uplink]\nrate_mbit_per_s = 2\n"));
        let own = own.path().to_str().unwrap();
        let line = error(&["--config", own]);
        let begin = format!("{own}: uplink.rate_mbit_per_s: got 2; half_duplex would ignore it");
        assert!(line.starts_with(&begin) && !line.contains('\n'), "{line}");
        // A flag for both directions wins over both.
        assert!(config(&["--config", own, "--rate", "3"]).is_ok());
        let plain = file(downlink);
        let plain = plain.path().to_str().unwrap();
        assert!(config(&["--config", plain]).is_ok());
        let line = error(&["--config", plain, "--uplink", "delay_ms = 6"]);
        assert!(line.contains("uplink.delay_ms: got 6; half"), "{line}");
    }

    #[test]
    fn flags_set_both_directions_and_each_its_own() {
        let config = config(&[
            "--rate",
            "20",
            "--delay",
            "25",
            "--queue",
            "200",
            "--outage",
            "4+3,10+7.5",
            "--uplink",
            "rate_mbit_per_s = 5, loss = 0.01",
            "--outage-effect",
            "keep",
        ])
        .unwrap();
        assert_eq!(config.downlink.capacity, Capacity::Constant(20_000_000));
        assert_eq!(config.uplink.capacity, Capacity::Constant(5_000_000));
        assert_eq!(config.uplink.delay, Duration::from_millis(25));
        assert_eq!(
            (
                config.downlink.queue_packets_max,
                config.uplink.queue_packets_max
            ),
            (200, 200)
        );
        assert_eq!(config.uplink.outage_effect, OutageEffect::Keep);
        assert!(config.outages_shared);
        let outages =
            OutageSchedule::new(&config.downlink.outages, 1).until(Instant::from_millis(60_000));
        assert_eq!(outages.len(), 2);
        assert_eq!(outages[1].end, Instant::from_millis(17_500));
    }

    #[test]
    fn a_file_is_read_and_flags_win_over_it() {
        let file =
            file("seed = 9\n[downlink]\nrate_mbit_per_s = 3\ndelay_ms = 7\n[uplink]\nloss = 0.5\n");
        let path = file.path().to_str().unwrap();
        let config = config(&["--config", path, "--delay", "8"]).unwrap();
        assert_eq!((config.seed, config.uplink.loss), (9, 0.5));
        assert_eq!(config.downlink.capacity, Capacity::Constant(3_000_000));
        assert_eq!(config.downlink.delay, Duration::from_millis(8));
    }

    #[test]
    fn an_error_names_file_key_and_value() {
        let bad = file("[downlink]\ndelay_ms = -7\n");
        let path = bad.path().to_str().unwrap();
        assert_eq!(
            error(&["--config", path]),
            format!("{path}: downlink.delay_ms: got -7, takes 0 to 600000 ms")
        );
        let unknown = file("[downlink]\ndelay = 7\n");
        assert!(
            error(&["--config", unknown.path().to_str().unwrap()])
                .ends_with("key `downlink.delay`: got 7; there is no such key; did you mean `downlink.delay_ms`?")
        );
        assert!(
            error(&["--uplink", "delay = 7"])
                .starts_with("--uplink: key `delay`: got 7; there is no such key")
        );
        assert!(error(&["--outage", "4-3"]).starts_with("--outage: got `4-3`, takes"));
        assert!(error(&["--config", "/nonexistent"]).starts_with("/nonexistent: cannot be read"));
        assert!(error(&["--loss", "2"]).starts_with("command line: downlink.loss: got 2"));
    }

    #[test]
    fn a_trace_is_looked_for_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cell.mm"), "1\n2\n").unwrap();
        let path = folder.path().join("link.toml");
        std::fs::write(&path, "[downlink]\nrate_trace = \"cell.mm\"\n").unwrap();
        let config = config(&["--config", path.to_str().unwrap()]).unwrap();
        assert!(matches!(
            config.downlink.capacity,
            Capacity::Opportunities(_)
        ));
    }

    /// The settings of a file, with these flags.
    fn config_of(text: &str, flags: &[&str]) -> LinkConfig {
        let settings = file(text);
        let given = ["--config", settings.path().to_str().unwrap()];
        config(&[&given, flags].concat()).unwrap()
    }

    /// The begins of the outages of downlink and uplink, in whole seconds.
    fn begins_s(config: &LinkConfig) -> [Vec<u64>; 2] {
        [&config.downlink, &config.uplink].map(|plan| {
            let mut schedule = OutageSchedule::new(&plan.outages, 1);
            let outages = schedule.until(Instant::from_millis(60_000));
            outages
                .iter()
                .map(|outage| outage.begin.as_nanos() / 1_000_000_000)
                .collect()
        })
    }

    fn effects(config: &LinkConfig) -> [OutageEffect; 2] {
        [config.downlink.outage_effect, config.uplink.outage_effect]
    }

    #[test]
    fn the_outage_effect_of_one_direction_wins_over_that_of_both() {
        use OutageEffect::{Keep, Lose, LoseArriving};
        let one = ["--uplink", "outage_effect = \"keep\""];
        let both = ["--outage", "1+2", "--outage-effect", "lose"];
        let flags = config(&[both, [one[0], one[1], "--delay", "5"]].concat()).unwrap();
        assert_eq!(effects(&flags), [Lose, Keep]);
        let text = "outage_effect = \"keep\"\n[uplink]\noutage_effect = \"lose\"\n";
        assert_eq!(effects(&config_of(text, &[])), [Keep, Lose]);
        assert_eq!(effects(&config_of(text, &one)), [Keep, Keep]);
        let both = ["--outage-effect", "lose-arriving"];
        assert_eq!(effects(&config_of(text, &both)), [LoseArriving; 2]);
    }

    #[test]
    fn the_outages_of_one_direction_win_over_those_of_both() {
        let list = |at_s| format!("{{ kind = \"list\", list = [{{ at_s = {at_s}, for_s = 1 }}] }}");
        let own = format!("outages = {}", list(5));
        let flags = config(&["--outage", "1+1", "--uplink", &own]).unwrap();
        assert_eq!(begins_s(&flags), [vec![1], vec![5]]);
        assert!(!flags.outages_shared);
        // In the file, and then a flag for both over all of it.
        let text = format!("outages = {}\n[downlink]\n{own}\n", list(3));
        let in_file = config_of(&text, &[]);
        assert_eq!(begins_s(&in_file), [vec![5], vec![3]]);
        assert!(!in_file.outages_shared);
        for text in [&text, &format!("[downlink]\n{own}\n")] {
            let flag = config_of(text, &["--outage", "1+1"]);
            assert_eq!(begins_s(&flag), [vec![1], vec![1]]);
            assert!(flag.outages_shared);
        }
    }

    #[test]
    fn a_flag_for_one_direction_leaves_it_without_outages() {
        let none = ["--uplink", "outages = { kind = \"none\" }"];
        let flags = config(&["--outage", "1+1", none[0], none[1]]).unwrap();
        assert_eq!(begins_s(&flags), [vec![1], vec![]]);
        let text = "outages = { kind = \"list\", list = [{ at_s = 3, for_s = 1 }] }";
        let over_file = config_of(text, &none);
        assert_eq!(begins_s(&over_file), [vec![3], vec![]]);
        assert!(!flags.outages_shared && !over_file.outages_shared);
    }

    #[test]
    fn outages_of_both_stay_shared_beside_tables_that_a_program_wrote() {
        let list = vec![OutageAt {
            at_s: 3.0,
            for_s: 1.0,
        }];
        let written = LinkFile {
            outages: OutageSettings::List { list },
            ..LinkFile::default()
        };
        let read = config_of(&toml::to_string(&written).unwrap(), &[]);
        assert_eq!(begins_s(&read), [vec![3], vec![3]]);
        assert!(read.outages_shared);
    }

    #[test]
    fn outages_of_the_uplink_alone_are_refused_on_a_half_duplex_medium() {
        let own = "outages = { kind = \"none\" }";
        let settings = file("half_duplex = true");
        let path = settings.path().to_str().unwrap();
        let line = error(&["--config", path, "--outage", "1+1", "--uplink", own]);
        assert!(
            line.contains("uplink.outages: got { kind = \"none\" }; half_duplex"),
            "{line}"
        );
    }
}
