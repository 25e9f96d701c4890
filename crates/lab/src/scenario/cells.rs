// SPDX-License-Identifier: Apache-2.0
//! `[[cells]]` and `[movement]`: several base stations, each with a wireless link, and an MH that
//! moves between them.
//!
//! The MH is in one cell at a time, or in none while it moves. To a substrate, a cell without the
//! MH is a link in an outage, whatever the reason. A scenario without `[[cells]]` is one cell that
//! the MH never leaves.

use holdfast_link::{OutageAt, seed_for};
use holdfast_settings::kind::{As, Maybe, Number};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};
use toml::Table;

use super::hop::HopConditions;
use holdfast_files::document::DocumentError;

/// The largest number of cells of a scenario.
const CELLS_MAX: usize = 16;
/// The largest number of moves of a run.
const MOVES_MAX: usize = 10_000;
/// The shortest time between two cells, and in one cell, in seconds: the shortest outage.
const APART_MIN_S: f64 = 0.001;
/// The seed's part for random movement.
const PART_MOVEMENT: u64 = 4_000_000;
/// The seed's part for another cell than the first; the cell's number is added.
const PART_CELLS: u64 = 5_000_000;

/// From leaving a cell to entering the next one, in milliseconds.
type Gap = Number<1, 60_000>;
/// The other times around a move, in milliseconds.
type Around = Number<0, 60_000>;
/// A time in seconds, at least [`APART_MIN_S`].
type Apart = Number<1, 1_000_000_000, 1_000>;

/// `[movement]`: when the MH goes where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovementConditions {
    /// The moves.
    pub moves: Moves,
    /// From leaving a cell to entering the next one, in milliseconds.
    #[serde(default = "gap_ms", with = "As::<Gap>")]
    pub gap_ms: f64,
    /// From the announcement of where the MH goes to its leaving, in milliseconds; 0: there is
    /// none.
    #[serde(default, with = "As::<Around>")]
    pub warning_ms: f64,
    /// From entering a cell until the wired route to the MH leads there, in milliseconds; none: the
    /// route does not change.
    #[serde(default, with = "Maybe::<Around>")]
    pub route_after_ms: Option<f64>,
}

fn gap_ms() -> f64 {
    10.0
}

/// When the MH moves, as a scenario writes it. It begins in cell 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Moves {
    /// At the times given, in order.
    List {
        /// The moves.
        list: Vec<MoveAt>,
    },
    /// At equal distances, from each cell to the next one, from the last to the first.
    Periodic {
        /// When it first leaves a cell, in seconds.
        #[serde(with = "As::<Apart>")]
        first_at_s: f64,
        /// From leaving to leaving, in seconds.
        #[serde(with = "As::<Apart>")]
        every_s: f64,
    },
    /// After stays from an exponential distribution, to any other cell with the same
    /// probability.
    Random {
        /// Mean of a stay, in seconds.
        #[serde(with = "As::<Apart>")]
        stay_mean_s: f64,
        /// The shortest stay; what is drawn below counts as this, in seconds.
        #[serde(default = "stay_min_s", with = "As::<Apart>")]
        stay_min_s: f64,
    },
}

fn stay_min_s() -> f64 {
    0.1
}

/// One move of a list; missing values are those of the movement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveAt {
    /// When it leaves the cell that it is in, in seconds.
    pub at_s: f64,
    /// The cell that it enters, from 1.
    pub to: usize,
    /// [`MovementConditions::gap_ms`].
    #[serde(default, with = "Maybe::<Gap>")]
    pub gap_ms: Option<f64>,
    /// [`MovementConditions::warning_ms`].
    #[serde(default, with = "Maybe::<Around>")]
    pub warning_ms: Option<f64>,
    /// [`MovementConditions::route_after_ms`].
    #[serde(default, with = "Maybe::<Around>")]
    pub route_after_ms: Option<f64>,
}

/// The times of a run's move, in seconds since the start of the links' clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// The cell that is left, from 0.
    pub from: usize,
    /// The cell that is entered, from 0.
    pub to: usize,
    /// When the MH announces that it leaves; none: it does not announce it.
    pub warning_s: Option<f64>,
    /// When it leaves the old cell.
    pub leave_s: f64,
    /// When it enters the new cell.
    pub enter_s: f64,
    /// When the wired route leads to the new cell; none: the route does not change.
    pub route_s: Option<f64>,
}

/// The cells of a scenario: the keys of each cell are laid over the wireless hop's table. Without
/// cells the wireless hop is the only one.
pub(super) fn read(wireless: &Table, cells: &[Table]) -> Result<Vec<HopConditions>, DocumentError> {
    if cells.len() > CELLS_MAX {
        return Err(DocumentError::at(
            "cells",
            format!("more than {CELLS_MAX} cells; take fewer"),
        ));
    }
    let common = HopConditions::read(wireless).map_err(|error| error.within("wireless"))?;
    if cells.is_empty() {
        return Ok(vec![common]);
    }
    let each = cells.iter().enumerate().map(|(number, own)| {
        let within = |error: DocumentError| error.within(&number.to_string()).within("cells");
        // Reads the cell's table alone first: its errors name the key in that table.
        HopConditions::read(own).map_err(within)?;
        HopConditions::read_over(wireless, own).map_err(within)
    });
    each.collect()
}

impl MovementConditions {
    /// Refuses movements that are impossible with `cells` cells.
    pub(super) fn check(&self, cells: usize) -> Result<(), DocumentError> {
        if cells < 2 {
            let problem = "there is nowhere to go; give two [[cells]] or more";
            return Err(DocumentError::at("moves", problem));
        }
        let within = |error: DocumentError| error.within("moves");
        match &self.moves {
            Moves::List { list } => check_list(self, list, cells).map_err(within),
            Moves::Periodic { every_s, .. } if *every_s < self.gap_ms / 1e3 + APART_MIN_S => {
                let problem = "takes more than gap_ms";
                Err(within(DocumentError::at("every_s", problem)))
            }
            Moves::Periodic { .. } | Moves::Random { .. } => Ok(()),
        }
    }

    /// The moves that begin before `until_s`, drawn from the run's seed. The MH begins in the first
    /// of `cells` cells.
    pub(super) fn drawn(
        &self,
        seed: u64,
        until_s: f64,
        cells: usize,
    ) -> Result<Vec<Move>, DocumentError> {
        let mut random = ChaCha8Rng::seed_from_u64(seed_for(seed, PART_MOVEMENT));
        let (mut moves, mut cell, mut entered_s): (Vec<Move>, usize, f64) = (Vec::new(), 0, 0.0);
        while let Some(next) = self.next(moves.len(), cell, entered_s, cells, &mut random) {
            if next.at_s >= until_s {
                break;
            }
            if moves.len() == MOVES_MAX {
                let problem = format!("more than {MOVES_MAX} moves in a run; take fewer");
                return Err(DocumentError::at("movement.moves", problem));
            }
            let a_move = self.planned(&next, cell, entered_s);
            (cell, entered_s) = (a_move.to, a_move.enter_s);
            moves.push(a_move);
        }
        Ok(moves)
    }

    /// The next move after `done` moves. The MH has been in `cell` since `entered_s`.
    fn next(
        &self,
        done: usize,
        cell: usize,
        entered_s: f64,
        cells: usize,
        random: &mut ChaCha8Rng,
    ) -> Option<MoveAt> {
        let (at_s, to) = match &self.moves {
            Moves::List { list } => return list.get(done).copied(),
            Moves::Periodic {
                first_at_s,
                every_s,
            } => (first_at_s + every_s * done as f64, (cell + 1) % cells),
            Moves::Random {
                stay_mean_s,
                stay_min_s,
            } => {
                let unit = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
                let stay_s = -stay_mean_s * libm::log(1.0 - unit);
                let ahead = 1 + random.next_u64() as usize % (cells - 1);
                (entered_s + stay_s.max(*stay_min_s), (cell + ahead) % cells)
            }
        };
        Some(MoveAt {
            at_s,
            to: to + 1,
            gap_ms: None,
            warning_ms: None,
            route_after_ms: None,
        })
    }

    /// The times of a move from `cell`, which the MH entered at `entered_s`.
    fn planned(&self, a_move: &MoveAt, cell: usize, entered_s: f64) -> Move {
        let warning_s = a_move.warning_ms.unwrap_or(self.warning_ms) / 1e3;
        let enter_s = a_move.at_s + a_move.gap_ms.unwrap_or(self.gap_ms) / 1e3;
        let route_after_ms = a_move.route_after_ms.or(self.route_after_ms);
        Move {
            from: cell,
            to: a_move.to - 1,
            warning_s: (warning_s > 0.0).then(|| (a_move.at_s - warning_s).max(entered_s)),
            leave_s: a_move.at_s,
            enter_s,
            route_s: route_after_ms.map(|ms| enter_s + ms / 1e3),
        }
    }
}

fn check_list(
    movement: &MovementConditions,
    list: &[MoveAt],
    cells: usize,
) -> Result<(), DocumentError> {
    let (mut cell, mut entered_s, mut routed_s) = (0, 0.0, 0.0);
    for (number, a_move) in list.iter().enumerate() {
        let at = |key: &str, problem: String| {
            let error = DocumentError::at(key, problem);
            Err(error.within(&number.to_string()).within("list"))
        };
        if !(1..=cells).contains(&a_move.to) || a_move.to == cell + 1 {
            let here = cell + 1;
            return at(
                "to",
                format!("takes one of 1 to {cells}, and not {here}, where it is"),
            );
        }
        let least_s: f64 = entered_s + APART_MIN_S;
        if !(a_move.at_s.is_finite() && a_move.at_s >= least_s) {
            return at(
                "at_s",
                format!("takes at least {least_s} s, after the move before it"),
            );
        }
        let planned = movement.planned(a_move, cell, entered_s);
        if planned.route_s.is_some_and(|route_s| route_s < routed_s) {
            let problem = "the route would be moved before that of the move before it";
            return at("route_after_ms", problem.to_owned());
        }
        (cell, entered_s) = (planned.to, planned.enter_s);
        routed_s = planned.route_s.unwrap_or(routed_s);
    }
    Ok(())
}

/// The seed of a cell's link; the first cell has the run's own seed.
pub(crate) fn seed_of(seed: u64, cell: usize) -> u64 {
    match cell {
        0 => seed,
        other => seed_for(seed, PART_CELLS + other as u64),
    }
}

/// The times before `until_s` in which the MH is not in `cell`, in order and disjoint.
pub(super) fn away(moves: &[Move], cell: usize, until_s: f64) -> Vec<OutageAt> {
    let mut away = Vec::new();
    // The MH begins in the first cell.
    let mut left_s = (cell != 0).then_some(0.0);
    for a_move in moves {
        if a_move.from == cell {
            left_s = Some(a_move.leave_s);
        }
        if a_move.to == cell
            && let Some(at_s) = left_s.take()
        {
            away.push(OutageAt {
                at_s,
                for_s: a_move.enter_s - at_s,
            });
        }
    }
    if let Some(at_s) = left_s {
        away.push(OutageAt {
            at_s,
            // The MH does not return to this cell during the run.
            for_s: until_s - at_s + 1.0,
        });
    }
    away
}

/// The outages of both lists, merged, in order and disjoint.
pub(super) fn either(a: &[OutageAt], b: &[OutageAt]) -> Vec<OutageAt> {
    let mut all: Vec<OutageAt> = a.iter().chain(b).copied().collect();
    all.sort_by(|x, y| x.at_s.total_cmp(&y.at_s));
    let mut merged: Vec<OutageAt> = Vec::new();
    for outage in all {
        let end_s = outage.at_s + outage.for_s;
        match merged.last_mut() {
            // The gap is shorter than the least time between two outages.
            Some(last) if outage.at_s < last.at_s + last.for_s + APART_MIN_S => {
                last.for_s = last.for_s.max(end_s - last.at_s);
            }
            _ => merged.push(outage),
        }
    }
    merged
}

/// The intersections of two lists' outages. Each list is in order and disjoint.
pub(super) fn both(a: &[OutageAt], b: &[OutageAt]) -> Vec<OutageAt> {
    let mut common = Vec::new();
    for x in a {
        for y in b {
            let at_s = x.at_s.max(y.at_s);
            let for_s = (x.at_s + x.for_s).min(y.at_s + y.for_s) - at_s;
            // The shortest outage that a list takes, less the rounding error of the subtraction.
            if for_s > APART_MIN_S * 0.999 {
                common.push(OutageAt {
                    at_s,
                    for_s: for_s.max(APART_MIN_S),
                });
            }
        }
    }
    common.sort_by(|x, y| x.at_s.total_cmp(&y.at_s));
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    fn movement(text: &str) -> MovementConditions {
        toml::from_str(text).unwrap()
    }

    fn list(text: &str) -> MovementConditions {
        movement(&format!("moves = {{ kind = \"list\", list = [{text}] }}"))
    }

    fn outages_of(pairs: &[(f64, f64)]) -> Vec<OutageAt> {
        let outage = |&(at_s, for_s): &(f64, f64)| OutageAt { at_s, for_s };
        pairs.iter().map(outage).collect()
    }

    fn ms(outages: &[OutageAt]) -> Vec<(i64, i64)> {
        let ms = |s: f64| (s * 1e3).round() as i64;
        outages.iter().map(|o| (ms(o.at_s), ms(o.for_s))).collect()
    }

    #[test]
    fn away_from_a_cell_is_from_leaving_it_to_entering_it_again() {
        let a_move =
            movement("moves = { kind = \"periodic\", first_at_s = 2, every_s = 2 }\ngap_ms = 10");
        a_move.check(2).unwrap();
        let moves = a_move.drawn(1, 7.0, 2).unwrap();
        assert_eq!(moves.len(), 3);
        let [one, two] = [0, 1].map(|cell| ms(&away(&moves, cell, 7.0)));
        assert_eq!(one, [(2000, 2010), (6000, 2000)]);
        assert_eq!(two, [(0, 2010), (4000, 2010)]);
        let none = both(&away(&moves, 0, 7.0), &away(&moves, 1, 7.0));
        assert_eq!(ms(&none), [(2000, 10), (4000, 10), (6000, 10)]);
    }

    #[test]
    fn a_move_has_the_times_of_its_announcement_and_its_route() {
        let a_move = movement(
            "moves = { kind = \"list\", list = [{ at_s = 1, to = 3 }, \
             { at_s = 1.1, to = 2, warning_ms = 500, route_after_ms = 5 }] }\n\
             gap_ms = 20\nwarning_ms = 100\nroute_after_ms = 30",
        );
        a_move.check(3).unwrap();
        let moves = a_move.drawn(1, 9.0, 3).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert_eq!((moves[0].from, moves[0].to), (0, 2));
        assert!(near(moves[0].warning_s.unwrap(), 0.9), "{moves:?}");
        assert!(near(moves[0].enter_s, 1.02) && near(moves[0].route_s.unwrap(), 1.05));
        // The MH was not in that cell before.
        assert_eq!((moves[1].from, moves[1].to), (2, 1));
        assert!(near(moves[1].warning_s.unwrap(), 1.02), "{moves:?}");
        assert!(near(moves[1].route_s.unwrap(), 1.125), "{moves:?}");
    }

    #[test]
    fn random_moves_are_those_of_the_seed_and_never_to_where_the_mh_is() {
        let a_move = movement("moves = { kind = \"random\", stay_mean_s = 1 }");
        a_move.check(4).unwrap();
        let moves = a_move.drawn(7, 500.0, 4).unwrap();
        assert_eq!(moves, a_move.drawn(7, 500.0, 4).unwrap());
        assert_ne!(moves, a_move.drawn(8, 500.0, 4).unwrap());
        assert!((400..600).contains(&moves.len()), "{}", moves.len());
        let mut seen = [0; 4];
        let (mut cell, mut entered_s) = (0, 0.0);
        for a_move in &moves {
            assert!(a_move.from == cell && a_move.to != cell && a_move.to < 4);
            assert!(a_move.leave_s >= entered_s + 0.1 - 1e-9, "{a_move:?}");
            (cell, entered_s) = (a_move.to, a_move.enter_s);
            seen[cell] += 1;
        }
        assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
    }

    #[test]
    fn a_move_that_cannot_be_is_refused_with_its_key() {
        for (a_move, key) in [
            ("{ at_s = 1, to = 1 }", "list.0.to"),
            ("{ at_s = 1, to = 3 }", "list.0.to"),
            (
                "{ at_s = 1, to = 2 }, { at_s = 1.005, to = 1 }",
                "list.1.at_s",
            ),
            ("{ at_s = 0, to = 2 }", "list.0.at_s"),
            ("{ at_s = nan, to = 2 }", "list.0.at_s"),
            (
                "{ at_s = 1, to = 2, route_after_ms = 500 }, \
                 { at_s = 1.2, to = 1, route_after_ms = 5 }",
                "list.1.route_after_ms",
            ),
        ] {
            let error = list(a_move).check(2).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
        let often = movement("moves = { kind = \"periodic\", first_at_s = 1, every_s = 0.01 }");
        assert!(often.check(2).unwrap_err().to_string().contains("every_s"));
        for text in [
            "moves = { kind = \"list\", list = [{ at_s = 1, to = 2, gap_ms = 0 }] }",
            "moves = { kind = \"random\", stay_mean_s = 0 }",
            "moves = { kind = \"random\", stay_mean_s = 1 }\nwarning_ms = -1",
        ] {
            assert!(
                toml::from_str::<MovementConditions>(text).is_err(),
                "{text}"
            );
        }
        let a_move = list("{ at_s = 1, to = 2 }");
        assert!(
            a_move
                .check(1)
                .unwrap_err()
                .to_string()
                .contains("[[cells]]")
        );
    }

    #[test]
    fn outages_of_either_list_are_merged_where_they_touch() {
        let merged = either(
            &outages_of(&[(1.0, 1.0), (5.0, 1.0)]),
            &outages_of(&[(1.5, 1.0), (4.0, 1.0)]),
        );
        assert_eq!(ms(&merged), [(1000, 1500), (4000, 2000)]);
        assert_eq!(ms(&either(&outages_of(&[(1.0, 1.0)]), &[])), [(1000, 1000)]);
    }
}
