//! `phzc choose` on instances of the contest's form.

use crate::common::{phzc, scratch};
use serde_json::{Value, json};

/// Two nodes that are alive together for a while: a cheap pair of options is too large, a dear one fits.
fn instance(usage_limit: u64) -> Vec<u8> {
    let text = json!({"problem": {"name": "pair", "usage_limit": usage_limit,
        "nodes": {"intervals": [[0, 4], [2, 6], [5, 9]], "costs": [[1, 5], [1, 9], [0]],
                  "usages": [[6, 2], [6, 1], [3]]},
        "edges": {"nodes": [[0, 1]], "costs": [[0, 2, 0, 1000000000000000000u64]]}}});
    text.to_string().into_bytes()
}

fn chosen(usage_limit: u64) -> Value {
    let outcome = phzc(&["choose", "-", "--json"], &instance(usage_limit));
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{}", outcome.stderr))
}

#[test]
fn the_cheapest_choice_that_fits_at_every_time_is_taken_and_proved() {
    // Options 0 and 0 cost 2 and hold 12 at once; 1 and 0 hold 8 at cost 6, 0 and 1 hold 7 at cost 12.
    let figures = |limit: u64| {
        let line = chosen(limit);
        [&line["cost"], &line["lower_bound"], &line["peak_usage"]].map(|value| value.as_f64().unwrap_or(-1.0))
    };
    assert_eq!(figures(12), [2.0, 2.0, 12.0]);
    assert_eq!(figures(11), [6.0, 6.0, 9.0]);
    assert_eq!(figures(8), [12.0, 12.0, 7.0]);
}

#[test]
fn without_a_choice_that_fits_the_line_says_so() {
    let line = chosen(6);
    assert_eq!((&line["feasible"], &line["cost"]), (&Value::Bool(false), &Value::Null));
}

#[test]
fn a_limit_is_ignored_on_request() {
    let outcome = phzc(&["choose", "-", "--unlimited"], &instance(6));
    assert!(outcome.stdout.starts_with("pair: cost 2, at least 2, gap 0.000 %, peak usage 12, "));
}

#[test]
fn the_strategies_are_written_as_a_list() {
    let folder = scratch("choose_output");
    let path = folder.join("solution.json");
    let outcome = phzc(&["choose", "-", "-o", &path.to_string_lossy()], &instance(11));
    assert!(outcome.stdout.starts_with("pair: cost 6, at least 6, gap 0.000 %, peak usage 9, "));
    assert_eq!(std::fs::read_to_string(path).ok().as_deref(), Some("[1,0,0]\n"));
}

#[test]
fn an_instance_that_is_wrong_is_an_error_with_its_cause() {
    let outcome = phzc(&["choose", "-"], br#"{"problem": {"name": 3}}"#);
    assert!(
        outcome.code != 0 && outcome.stderr.contains("the instance cannot be read"),
        "{}",
        outcome.stderr
    );
}
