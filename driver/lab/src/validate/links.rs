//! Measured links between unlike devices: `--links FILE`, in JSON.
//!
//! `zone -> device -> devices per node -> zone -> device -> devices per node -> [[c2, c1, c0], peak]`: `c2
//! x^2 + c1 x + c0` GB/s for a message of `2^x` MB, at most `peak` bytes per second. The first count of each
//! is taken: these are links of nodes.

use super::plan::{Copy, Plan};
use phzc_cost::training::Job;
use phzc_io::json;
use phzc_ir::Result;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Bytes per second, above 0.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "f64")]
struct Peak(f64);

impl TryFrom<f64> for Peak {
    type Error = String;

    fn try_from(rate: f64) -> std::result::Result<Peak, String> {
        let is_legal = rate.is_finite() && rate > 0.0;
        is_legal.then_some(Peak(rate)).ok_or_else(|| format!("expected a peak above 0, found `{rate}`"))
    }
}

/// Coefficients of the curve, and its peak.
type Curve = ([f64; 3], Peak);
type ByCount<T> = BTreeMap<String, T>;
type ByPlace<T> = BTreeMap<String, BTreeMap<String, ByCount<T>>>;

/// A file of measured links.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Links {
    zones: ByPlace<ByPlace<Curve>>,
}

impl Links {
    /// Reads one file.
    ///
    /// # Errors
    /// When it has not the form above, or a peak that is not above 0.
    pub fn parse(text: &str) -> Result<Links> {
        let help = "`{\"zone\": {\"device\": {\"count\": {\"zone\": {\"device\": {\"count\": [[c2, c1, c0], peak]}}}}}}`; see \
                    docs/validation.md";
        json::read(text, "the measured links", help)
    }

    /// Seconds of a message between two nodes.
    fn secs(&self, bytes: f64, from: &Copy, to: &Copy) -> Option<f64> {
        let by_zone = self.zones.get(&from.zone)?.get(&from.device)?.values().next()?;
        let ([square, linear, constant], Peak(peak)) =
            by_zone.get(&to.zone)?.get(&to.device)?.values().next()?;
        let power = (bytes / 1e6).log2();
        let gb_per_sec = square * power * power + linear * power + constant;
        let fitted = 1e9 * gb_per_sec;
        let bytes_per_sec = if fitted > 0.0 { fitted.min(*peak) } else { *peak };
        Some(bytes / bytes_per_sec)
    }

    /// Seconds over each boundary between stages on nodes of one device, which a row's text ends with, if
    /// links from it to itself were measured.
    pub fn like_secs(&self, device: &str, job: &Job) -> Option<Vec<f64>> {
        let known = |(zone, devices): (&String, &BTreeMap<String, ByCount<ByPlace<Curve>>>)| {
            let name = devices.keys().find(|name| device.ends_with(name.as_str()))?;
            let copy = Copy { device: name.clone(), zone: zone.clone(), tensor: 1 };
            self.secs(job.message_bytes(), &copy, &copy)
        };
        let secs = self.zones.iter().find_map(known)?;
        Some(vec![secs; job.layout.stages - 1])
    }

    /// Seconds over each boundary of a plan: the slowest pair of copies counts.
    pub fn send_secs(&self, plan: &Plan, job: &Job) -> Option<Vec<f64>> {
        let bytes = job.message_bytes();
        let boundary = |pair: &[super::plan::Stage]| {
            let [before, after] = pair else { return None };
            // The copy of a stage hands on to the copy of the same number.
            let n_copies = before.copies.len().max(after.copies.len());
            let of = |copies: &[Copy], index: usize| copies[index % copies.len()].clone();
            let secs = (0..n_copies)
                .map(|index| self.secs(bytes, &of(&before.copies, index), &of(&after.copies, index)));
            secs.collect::<Option<Vec<f64>>>().map(|all| all.into_iter().fold(0.0, f64::max))
        };
        plan.stages.windows(2).map(boundary).collect()
    }

    /// Seconds of the longest sum of a stage's gradients: a ring over its copies goes as fast as its slowest
    /// link, which the devices of a node share (Patarasuk and Yuan 2009: `2 (n - 1) / n` of the bytes).
    pub fn sync_secs(&self, plan: &Plan, job: &Job) -> Option<f64> {
        let mut longest: f64 = 0.0;
        for (index, stage) in plan.stages.iter().enumerate() {
            let n_copies = stage.copies.len();
            let bytes = job.stage_gradient_bytes(index);
            let volume = 2.0 * (n_copies as f64 - 1.0) / n_copies as f64 * bytes;
            for (number, copy) in stage.copies.iter().enumerate().filter(|_| n_copies > 1) {
                let next = &stage.copies[(number + 1) % n_copies];
                longest = longest.max(self.secs(volume, copy, next)?);
            }
        }
        Some(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(device: &str) -> Copy {
        Copy { device: device.to_owned(), zone: "z".to_owned(), tensor: 1 }
    }

    #[test]
    fn a_message_takes_its_bytes_over_the_curve_and_never_more_than_the_peak() {
        let text = r#"{"z": {"A": {"1": {"z": {"B": {"1": [[0.0, 0.5, 1.0], 2e9]}}}}}}"#;
        let links = Links::parse(text).unwrap();
        // 4 MB: 1 + 0.5 * 2 = 2 GB/s; 1 MB: 1 GB/s; 64 MB: 4 GB/s, but the peak is 2.
        let secs = |bytes: f64| links.secs(bytes, &copy("A"), &copy("B")).unwrap();
        assert_eq!((secs(4e6), secs(1e6), secs(64e6)), (2e-3, 1e-3, 32e-3));
        assert_eq!(links.secs(1e6, &copy("B"), &copy("A")), None);
        assert!(Links::parse(&text.replace("2e9", "0")).is_err());
    }
}
