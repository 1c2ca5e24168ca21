//! Which of the plans that were met is kept, and why.

use super::{Folder, LEAST_GAIN, Tried};
use phzc_io::units::{percent, secs};
use std::fmt::Write as _;

/// The plan that is kept.
pub(super) struct Kept<'t> {
    pub of: &'t Tried,
    /// What its step takes.
    pub secs: f64,
    /// Why it and no other one; nothing where there is no other.
    pub why: Option<String>,
}

/// Plans that can be compared, each once: those whose step was measured, if there are any, for what is
/// predicted of others is no match for that.
fn comparable<'t>(tried: &'t [Tried], folder: &Folder) -> Vec<(&'t Tried, f64)> {
    let step_secs = |one: &Tried| folder.secs(one.step.as_ref()?);
    let is_any_measured = tried.iter().any(|one| step_secs(one).is_some());
    let mut found: Vec<(&Tried, f64)> = Vec::new();
    for one in tried {
        let is_known = found.iter().any(|(other, _)| one.step.is_some() && other.step == one.step);
        let predicted = (!is_any_measured).then_some(one.predicted_secs);
        found.extend(step_secs(one).or(predicted).filter(|_| !is_known).map(|secs| (one, secs)));
    }
    found
}

/// The fastest plan and its seconds.
pub(super) fn fastest<'t>(tried: &'t [Tried], folder: &Folder) -> Option<(&'t Tried, f64)> {
    comparable(tried, folder).into_iter().min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The entries of the steps that were measured.
pub(super) fn steps(tried: &[Tried], folder: &Folder) -> Vec<String> {
    let steps = comparable(tried, folder).into_iter().filter_map(|(one, _)| one.step.clone());
    steps.filter(|step| folder.secs(step).is_some()).collect()
}

/// The fastest plan; the first one, unless the fastest gains more than samples of the two differ.
pub(super) fn kept<'t>(tried: &'t [Tried], folder: &Folder) -> Option<Kept<'t>> {
    let all = comparable(tried, folder);
    let (&(first, first_secs), (best, best_secs)) = (all.first()?, fastest(tried, folder)?);
    if all.len() == 1 {
        return Some(Kept { of: first, secs: first_secs, why: None });
    }
    let spread_secs = spread(first, folder) + spread(best, folder);
    if !is_faster(best_secs, first_secs, spread_secs) {
        let why = "no other one is faster by more than both their spreads".to_owned();
        return Some(Kept { of: first, secs: first_secs, why: Some(why) });
    }
    let gain = percent(1.0 - best_secs / first_secs);
    let why =
        format!("it takes {gain} less than that of round {}, more than both their spreads", first.round);
    Some(Kept { of: best, secs: best_secs, why: Some(why) })
}

/// Whether one plan is faster than another: by a part that is worth a change, and by more than their samples
/// differ.
fn is_faster(secs: f64, than_secs: f64, spread_secs: f64) -> bool {
    than_secs - secs > spread_secs.max(LEAST_GAIN * than_secs)
}

fn spread(one: &Tried, folder: &Folder) -> f64 {
    one.step.as_ref().map_or(0.0, |step| folder.spread_secs(step))
}

/// What each plan was predicted and is measured to take.
pub(super) fn table(tried: &[Tried], folder: &Folder) -> String {
    let mut out = "steps measured in turns:\n".to_owned();
    for (one, step_secs) in comparable(tried, folder) {
        let (round, predicted) = (one.round, secs(one.predicted_secs));
        let (time, spread) = (secs(step_secs), secs(spread(one, folder)));
        let _ = writeln!(out, "  round {round}: predicted {predicted}, measured {time}, spread {spread}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::is_faster;

    #[test]
    fn a_plan_within_the_spread_of_another_is_not_faster() {
        assert!(is_faster(0.224, 0.230, 0.004));
        assert!(!is_faster(0.224, 0.230, 0.008));
        // A gain of less than one percent is none, however steady it is.
        assert!(!is_faster(0.229, 0.230, 0.0));
    }
}
