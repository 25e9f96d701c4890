// SPDX-License-Identifier: Apache-2.0
//! The command line.

use std::time::Duration;

use crate::TARGETS;

pub(crate) const HELP: &str = "\
hostile_input [OPTION...]

Gives hostile input to everything that reads from the network, and checks what comes out.

  --scheme NAME   a scheme: hold, mtcp-plus, mtcp, mtcp-early, mtcp-zip, mtcp2007, snoop, snoop95;
                  or a parser: signals, stations, payloads; or all (the default)
  --seconds N     for all that is chosen together; 60 unless set
  --inputs N      the number of inputs for each, instead of a time
  --seed N        from the clock unless set
  --json          the table as JSON
  --help          this text";

/// When a target is done.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    Time(Duration),
    Inputs(u64),
}

pub(crate) struct Options {
    pub(crate) scheme: String,
    pub(crate) limit: Limit,
    pub(crate) seed: Option<u64>,
    pub(crate) json: bool,
    pub(crate) help: bool,
}

impl Options {
    /// Errors: a line for the user.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            scheme: "all".to_owned(),
            limit: Limit::Time(Duration::from_secs(60)),
            seed: None,
            json: false,
            help: false,
        };
        while let Some(arg) = args.next() {
            match &arg[..] {
                "--json" => options.json = true,
                "--help" | "-h" => options.help = true,
                "--scheme" => options.scheme = args.next().unwrap_or_default(),
                "--seed" => options.seed = Some(number(&arg, args.next())?),
                "--inputs" => options.limit = Limit::Inputs(number(&arg, args.next())?),
                "--seconds" => {
                    let seconds = number(&arg, args.next())?;
                    options.limit = Limit::Time(Duration::from_secs(seconds));
                }
                other => return Err(format!("{other}: no such option; see --help")),
            }
        }
        let name = &options.scheme;
        if name != "all" && !TARGETS.contains(&&name[..]) {
            return Err(format!(
                "--scheme {name}: one of all, {}",
                TARGETS.join(", ")
            ));
        }
        Ok(options)
    }
}

fn number(option: &str, value: Option<String>) -> Result<u64, String> {
    let value = value.unwrap_or_default();
    value
        .parse()
        .map_err(|_| format!("{option} {value}: a whole number is needed"))
}
