// SPDX-License-Identifier: Apache-2.0
use std::cell::RefCell;
use std::path::Path;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

use super::*;
use crate::claims::Verdict;
use crate::claims::file::Alternative;
use crate::framing::Framing;
use crate::results::Series;

const FIXTURE: &str = "src/report/fixture/p";

fn paper() -> Paper {
    Paper::load(Path::new(FIXTURE)).unwrap()
}

fn of_file(file: &str, substrate: &str) -> Vec<ResultLine> {
    let runs = Scenario::load(&Path::new(FIXTURE).join(file))
        .unwrap()
        .runs(None)
        .unwrap();
    let line = |run: &Run| {
        let mut line = ResultLine::of(run, substrate, "reno".into(), Framing::new(1460, false));
        line.commit = "0123456789ab".into();
        line.optimal_s = Some(6.0);
        line.intact = true;
        line
    };
    runs.iter().map(line).collect()
}

fn is(line: &ResultLine, name: &str, value: &str) -> bool {
    line.parameters
        .get(name)
        .is_some_and(|has| crate::results::word(has) == value)
}

/// Two runs for each cell. b does not finish with the long outage. c finishes, although the paper
/// prints that it does not.
fn table_lines() -> Vec<ResultLine> {
    let mut lines = of_file("lengths.toml", "model");
    for line in &mut lines {
        let middle = match (is(line, "outage_s", "5"), &line.parameters["tcp"]) {
            (true, tcp) if tcp == "a" => Some(104.0),
            (true, _) => Some(112.0),
            (false, tcp) if tcp == "a" => Some(230.0),
            (false, tcp) if tcp == "b" => None,
            (false, _) => Some(300.0),
        };
        let off = if line.seed == 1 { -1.0 } else { 1.0 };
        line.transfer_s = middle.map(|middle| middle + off);
        line.finished = middle.is_some();
    }
    lines
}

fn curve_lines() -> Vec<ResultLine> {
    let mut lines = of_file("curves.toml", "model");
    for (line, factor) in lines.iter_mut().zip([1_u64, 2]) {
        line.transfer_s = Some(10.0 / factor as f64);
        line.series = Some(Series {
            t_s: (0..=10).map(f64::from).collect(),
            cwnd: (0..=10).map(|t| (t % 4 + 1) * 1_460 * factor).collect(),
            ssthresh: (0..=10).map(|t| if t < 4 { 0 } else { 2_920 }).collect(),
            snd_una: Vec::new(),
            rcv_nxt: (0..=10).map(|t| t * 100_000 * factor).collect(),
            queue_packets: (0..=10).map(|t| t % 3).collect(),
            link_up: (0..=10).map(|t| !(2..4).contains(&t)).collect(),
            ..Series::default()
        });
    }
    lines
}

/// With the short outage the gateway makes Cubic 11% faster, but not BBR.
fn today_lines() -> Vec<ResultLine> {
    let mut lines = of_file("today.toml", "linux");
    for line in &mut lines {
        let cubic_alone = is(line, "congestion_control", "cubic") && is(line, "scheme", "none");
        line.kernel = Some("6.18.0".into());
        line.transfer_s = Some(if cubic_alone { 120.0 } else { 108.0 });
        line.finished = true;
    }
    lines
}

fn all_lines() -> Vec<ResultLine> {
    [table_lines(), curve_lines(), today_lines()].concat()
}

fn small_page() -> String {
    page(&paper(), &all_lines(), "holdfast lab report --paper p").unwrap()
}

/// The result of a browser's tokenizer.
#[derive(Default)]
struct Seen {
    errors: Vec<String>,
    open: Vec<String>,
    tags: Vec<(String, Vec<(String, String)>)>,
    /// The class and the text of each table cell.
    cells: Vec<(String, String)>,
    in_cell: bool,
    text: String,
}

#[derive(Default)]
struct Checker(RefCell<Seen>);

const VOID: [&str; 3] = ["meta", "br", "hr"];

impl TokenSink for Checker {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut seen = self.0.borrow_mut();
        match token {
            Token::ParseError(error) => seen.errors.push(error.into_owned()),
            Token::CharacterTokens(text) => {
                seen.text.push_str(&text);
                if seen.in_cell
                    && let Some(cell) = seen.cells.last_mut()
                {
                    cell.1.push_str(&text);
                }
            }
            Token::TagToken(tag) => return seen.tag(&tag),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

impl Seen {
    fn tag(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name = tag.name.to_string();
        if tag.kind == TagKind::EndTag {
            let open = self.open.pop();
            if open.as_deref() != Some(&name) {
                self.errors.push(format!("</{name}> closes {open:?}"));
            }
            self.in_cell &= name != "td";
            return TokenSinkResult::Continue;
        }
        let attributes: Vec<(String, String)> = tag
            .attrs
            .iter()
            .map(|attribute| {
                (
                    attribute.name.local.to_string(),
                    attribute.value.to_string(),
                )
            })
            .collect();
        if name == "td" {
            let class = attributes.iter().find(|(name, _)| name == "class");
            self.cells.push((
                class.map(|(_, value)| value.clone()).unwrap_or_default(),
                String::new(),
            ));
            self.in_cell = true;
        }
        if !VOID.contains(&name.as_str()) && !tag.self_closing {
            self.open.push(name.clone());
        }
        let raw = match name.as_str() {
            "style" => TokenSinkResult::RawData(RawKind::Rawtext),
            "title" if !self.open.iter().any(|name| name == "svg") => {
                TokenSinkResult::RawData(RawKind::Rcdata)
            }
            _ => TokenSinkResult::Continue,
        };
        self.tags.push((name, attributes));
        raw
    }

    fn attributes<'a>(&'a self, wanted: &'a str) -> impl Iterator<Item = &'a str> {
        let all = self.tags.iter().flat_map(|(_, attributes)| attributes);
        all.filter(move |(name, _)| name == wanted)
            .map(|(_, value)| value.as_str())
    }
}

fn seen(page: &str) -> Seen {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(page));
    let options = TokenizerOpts {
        exact_errors: true,
        ..TokenizerOpts::default()
    };
    let tokenizer = Tokenizer::new(Checker::default(), options);
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.into_inner()
}

fn assert_well_formed(page: &str) -> Seen {
    let seen = seen(page);
    assert_eq!(seen.errors, Vec::<String>::new());
    assert_eq!(seen.open, Vec::<String>::new(), "never closed");
    let mut ids: Vec<&str> = seen.attributes("id").collect();
    let targets: Vec<&str> = seen.attributes("href").collect();
    for target in &targets {
        assert!(
            ids.contains(&target.strip_prefix('#').expect(target)),
            "{target} leads nowhere"
        );
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "an id is there twice");
    seen
}

#[test]
fn the_page_of_a_small_set_of_lines_is_this() {
    // Without the style, and one tag a line: so a diff shows where the page changed.
    let page = small_page().replace(STYLE, "");
    insta::assert_snapshot!(page.replace("><", ">\n<"));
}

#[test]
fn a_browser_finds_nothing_wrong_with_the_page() {
    let seen = assert_well_formed(&small_page());
    assert!(seen.tags.len() > 200, "{}", seen.tags.len());
}

#[test]
fn the_checker_finds_what_is_wrong() {
    assert!(!seen("<p><b>x</p></b>").errors.is_empty());
    assert!(!seen("<p title=\"a\" title=\"b\">x</p>").errors.is_empty());
    assert_eq!(seen("<p>x").open, ["p"]);
}

#[test]
fn every_cell_has_its_verdict_as_a_class_and_as_text() {
    let entries = claims::entries(&paper(), &table_lines());
    let seen = seen(&small_page());
    let cells: Vec<&(String, String)> = seen
        .cells
        .iter()
        .filter(|(class, _)| class.starts_with("cell "))
        .collect();
    assert_eq!(cells.len(), 6);
    for (entry, (class, text)) in entries.iter().zip(cells) {
        assert_eq!(
            *class,
            format!("cell {}", verdict_mark::class(entry.verdict)),
            "{}",
            entry.id
        );
        assert!(text.contains(entry.verdict.name()), "{text}");
    }
    let statements = seen
        .cells
        .iter()
        .filter(|(class, _)| class.starts_with("verdict "));
    // There are two orders and two statements.
    assert_eq!(statements.count(), 4);
}

#[test]
fn printed_and_own_values_stand_in_their_cells_and_reasons_below() {
    let seen = seen(&small_page());
    let cells: Vec<&str> = seen
        .cells
        .iter()
        .filter(|(class, _)| class.starts_with("cell "))
        .map(|(_, text)| text.as_str())
        .collect();
    assert_eq!(
        cells,
        [
            "printed 100.0104.0 ✓holds",
            "printed 200.0230.0 ✗differs1",
            "printed 110.0112.0 ✓holds",
            "printed unfinishedunfinished ✓holds",
            "printed 110.0112.0 ✓holds",
            "printed unfinished300.0 ✗differs2",
        ]
    );
    let text = &seen.text;
    assert!(text.contains("outage 180 s, tcp a: differs, +15.0% (+30.00); within 5% is the same"));
    assert!(text.contains("Medians of 2 runs a cell."));
    // t(1) = 12.706, and the standard deviation of the mean is 1. The first cell of the first row
    // belongs to `a`.
    assert!(
        text.contains("outage (s)abc5printed 100.0104.0 ± 12.7"),
        "{text}"
    );
    assert!(text.contains("2 of 2 not finished"));
    assert!(text.contains("that differ in seed; bars are 95% confidence intervals of the means"));
    assert!(
        text.contains("as they were sent in 22 of 22 runs"),
        "{text}"
    );
    assert!(text.contains("1 to 2") && text.contains("0123456789ab") && text.contains("6.18.0"));
}

#[test]
fn the_page_needs_nothing_outside_of_itself() {
    let page = small_page();
    let seen = seen(&page);
    for (name, attributes) in &seen.tags {
        assert!(
            !["script", "link", "img", "iframe", "object", "embed", "base"]
                .contains(&name.as_str())
        );
        for (attribute, value) in attributes {
            assert!(!attribute.starts_with("on"), "{attribute}");
            assert!(attribute != "src" && attribute != "srcset", "{attribute}");
            assert!(!value.contains("//"), "{attribute}={value}");
        }
    }
    assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
}

#[test]
fn text_from_files_is_text_on_the_page() {
    let page = small_page();
    assert!(page.contains("A &lt;b&gt;paper&lt;/b&gt; &amp; its"));
    assert!(!page.contains("<b>paper") && !page.contains("<load>") && !page.contains("<nothing>"));
    let seen = seen(&page);
    assert!(seen.text.contains("not printed: the <load>"));
    assert!(
        seen.text
            .contains("What is not printed was chosen: <nothing>.")
    );
}

#[test]
fn under_each_table_and_figure_stands_the_command_that_makes_it() {
    let text = seen(&small_page()).text;
    for command in [
        "holdfast lab report --paper p",
        "holdfast lab run src/report/fixture/p/lengths.toml --out lengths-model.jsonl",
        "holdfast lab run src/report/fixture/p/curves.toml --out curves-model.jsonl",
        "holdfast lab run src/report/fixture/p/today.toml --substrate linux --out today-linux.jsonl",
        "holdfast lab claims --paper p",
    ] {
        assert!(text.contains(command), "{command}");
    }
}

#[test]
fn lines_of_other_seeds_need_the_seed_in_the_command() {
    let mut lines = table_lines();
    for line in &mut lines {
        line.seed += 40;
    }
    let text = seen(&page(&paper(), &lines, "x").unwrap()).text;
    assert!(
        text.contains("lengths.toml --seed 41 --out lengths-model.jsonl"),
        "{text}"
    );
    assert!(text.contains("41 to 42"));
}

#[test]
fn curves_are_shaded_while_the_link_is_down() {
    let page = small_page();
    // One in the panel of sequence numbers, one in that of queues, and one in each of two windows.
    assert_eq!(page.matches("<rect x=\"397\"").count(), 4);
    assert!(page.contains("received sequence number (MB) against time"));
}

#[test]
fn todays_senders_are_judged_by_the_papers_rules() {
    let seen = seen(&small_page());
    // The columns are cubic and bbr.
    let name = "goodput improves by about 10% & more";
    let rows = seen.cells.windows(4);
    let gains = rows.filter(|row| row[0].1 == name && row[1].1 == "b against a: +10.00%");
    let gains: Vec<_> = gains
        .map(|row| [2, 3].map(|column| (row[column].0.as_str(), row[column].1.as_str())))
        .collect();
    let [cubic, bbr] = gains.last().unwrap();
    assert_eq!(*cubic, ("holds", "+11.11% (120.0 for 108.0) ✓holds"));
    assert_eq!(bbr.0, "differs");
    assert!(bbr.1.starts_with("+0.00% (108.0 for 108.0)"), "{bbr:?}");
    let note = format!("bbr, {name}: differs, +0.00% for +10.00%");
    assert!(seen.text.contains(&note), "{}", seen.text);
    let without = seen_without_today();
    assert!(
        without
            .text
            .contains("No results with today's senders were given")
    );
    assert!(
        without
            .text
            .contains("holdfast lab run src/report/fixture/p/today.toml --substrate linux")
    );
}

fn seen_without_today() -> Seen {
    assert_well_formed(&page(&paper(), &table_lines(), "x").unwrap())
}

#[test]
fn todays_lines_change_nothing_in_the_first_part() {
    let part = |page: &str| {
        let from = page.find("<main>").unwrap();
        page[from..page.find("2. Today").unwrap()].to_owned()
    };
    let with = small_page();
    let lines = [table_lines(), curve_lines()].concat();
    assert_eq!(part(&with), part(&page(&paper(), &lines, "x").unwrap()));
}

#[test]
fn other_substrates_stand_in_the_cell_beside_the_model() {
    let mut lines = table_lines();
    let mut linux = of_file("lengths.toml", "linux").remove(0);
    linux.transfer_s = Some(99.5);
    lines.push(linux);
    let seen = seen(&page(&paper(), &lines, "x").unwrap());
    assert_eq!(
        seen.cells
            .iter()
            .find(|(class, _)| class.starts_with("cell"))
            .unwrap()
            .1,
        "printed 100.0104.0 ✓holdslinux 99.5"
    );
    assert!(
        seen.text
            .contains("lengths.toml --substrate linux --out lengths-linux.jsonl")
    );
}

#[test]
fn the_page_of_each_paper_is_well_formed_even_without_runs() {
    for paper in Paper::find(Path::new("../../papers")).unwrap() {
        let seen = assert_well_formed(&page(&paper, &[], "x").unwrap());
        let cells = seen
            .cells
            .iter()
            .filter(|(class, _)| class.starts_with("cell "));
        let printed: usize = paper
            .claims
            .table
            .iter()
            .map(|table| table.row.len() * table.columns.len())
            .sum();
        assert_eq!(cells.count(), printed, "{}", paper.name);
        assert!(seen.text.contains("no run"));
    }
}

#[test]
fn the_runs_are_those_of_the_claims_and_those_that_record() {
    let runs = runs(&paper()).unwrap();
    let get = |name: &str| runs.iter().filter(|run| run.scenario == name).count();
    assert_eq!(
        (get("p/lengths"), get("p/curves"), get("p/today")),
        (12, 2, 0)
    );
    let mut lines = table_lines();
    let lines_of =
        |run: &Run, lines: &[ResultLine]| lines.iter().filter(|line| is_of(line, run)).count();
    // Lines of another commit are not used.
    assert!(runs.iter().all(|run| lines_of(run, &lines) == 0));
    for line in &mut lines {
        COMMIT.clone_into(&mut line.commit);
    }
    assert!(runs.iter().take(12).all(|run| lines_of(run, &lines) == 1));
}

#[test]
fn runs_under_another_assumption_are_pooled_over_numbers_and_kept_apart_by_names() {
    let mut paper = paper();
    let alternative = |text: &str, name: &str, value: serde_json::Value| Alternative {
        text: text.into(),
        scenario: "other.toml".into(),
        selection: [(name.to_owned(), value)].into(),
        over: None,
        metric: None,
    };
    paper.claims.table[0].alternative = vec![
        alternative("an early one", "first_at_s", 10.into()),
        alternative("another sender", "quirk", "odd".into()),
    ];
    let mut lines = table_lines();
    for first_at_s in [10, 20, 30] {
        for mut line in table_lines().into_iter().filter(|line| line.seed == 1) {
            line.scenario = "p/other".into();
            line.parameters
                .insert("first_at_s".into(), first_at_s.into());
            line.parameters.insert(
                "quirk".into(),
                if first_at_s == 30 { "odd" } else { "even" }.into(),
            );
            line.transfer_s = line
                .transfer_s
                .map(|transfer_s| transfer_s + f64::from(first_at_s));
            lines.push(line);
        }
    }
    let text = assert_well_formed(&page(&paper, &lines, "x").unwrap()).text;
    assert!(text.contains("all runs of other.toml, model. Points are means of 3 runs that differ in first at (s), quirk;"), "{text}");
    // t(2) = 4.303, a standard deviation of 10 over the root of 3.
    assert!(text.contains("123.0 ± 24.8"), "{text}");
    assert!(
        text.contains("another sender, model. One run a point"),
        "{text}"
    );
    assert!(text.contains("133.0"), "{text}");
}

#[test]
fn seeds_side_by_side_are_a_range() {
    let mut lines = table_lines();
    for (line, seed) in lines
        .iter_mut()
        .zip([7, 1, 2, 3, u64::MAX].into_iter().cycle())
    {
        line.seed = seed;
    }
    let lines: Vec<&ResultLine> = lines.iter().collect();
    assert_eq!(seeds(&lines), ["1 to 3", "7", "18446744073709551615"]);
}

#[test]
fn verdicts_are_counted_in_the_header() {
    let entries = claims::entries(&paper(), &table_lines());
    let differ = entries
        .iter()
        .filter(|entry| entry.verdict == Verdict::Differs)
        .count();
    assert!(
        seen(&small_page())
            .text
            .contains(&format!("{differ} differ, "))
    );
}

/// Medians for each remedy and value of the paper's own parameter, and the bytes acknowledged
/// ahead.
#[test]
fn other_authors_remedies_stand_in_a_table_and_in_drawings() {
    let paper = Paper::load(Path::new("../../papers/mtcp-1997")).unwrap();
    let file = paper.folder.join("baselines.toml");
    let runs = Scenario::load(&file).unwrap().runs(None).unwrap();
    let line = |run: &Run| {
        let mut line = ResultLine::of(run, "model", "reno".into(), Framing::new(1460, false));
        line.transfer_s = Some(run.seed as f64);
        line.finished = true;
        let is_split = is(&line, "remedy", "I-TCP");
        line.acknowledged_ahead_bytes = Some(if is_split { 16_000 + run.seed } else { 0 });
        line
    };
    let lines: Vec<ResultLine> = runs.iter().map(line).collect();
    let page = page(&paper, &lines, "x").unwrap();
    let seen = assert_well_formed(&page);
    assert!(seen.text.contains("3. Other authors' remedies"));
    assert!(
        seen.text.contains("I-TCP5.5 (1.0 to 10.0)"),
        "{}",
        seen.text
    );
    assert!(seen.text.contains("16010base stationMTCP"), "{}", seen.text);
    // Twelve remedies besides the first one make three drawings.
    assert_eq!(page.matches("<figcaption>").count(), 3, "{page}");
    let of_page = super::runs(&paper).unwrap().into_iter();
    let own = of_page.filter(|run| run.scenario == "mtcp-1997/baselines");
    assert_eq!(own.count(), runs.len());
}

/// Some scenarios with other authors' remedies run on Linux only.
#[test]
fn the_model_can_carry_out_the_runs_of_each_page() {
    for paper in Paper::find(Path::new("../../papers")).unwrap() {
        let runs = super::runs(&paper).unwrap();
        let refusals = runs.iter().map(|run| SubstrateKind::Model.refusal(run));
        assert_eq!(refusals.flatten().next(), None, "{}", paper.name);
        let others = runs.iter().filter(|run| run.scenario.contains("haproxy"));
        assert_eq!(others.count(), 0);
    }
}
