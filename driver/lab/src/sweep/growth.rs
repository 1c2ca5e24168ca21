//! How layers grow with the microbatch, as a fleet's file says it.

use super::file::wrong;
use phzc_cost::fasop::{Growth, Role};
use phzc_ir::Result;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Of one device: the same for all degrees of tensor parallelism, or by degree.
#[derive(Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a list with one of these per group of layers: `\"linear\"`, `\"constant\"`, points such as `[[1, 1.0], [4, 1.5]]`, `{ fixed = 0.3 }`"
)]
pub(super) enum DeviceGrowth {
    All(Vec<GrowthText>),
    ByDegree(BTreeMap<String, Vec<GrowthText>>),
}

/// Of one group of layers.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum GrowthText {
    Word(String),
    Points(Vec<(usize, f64)>),
    Affine(Affine),
}

/// A part of the time that a microbatch takes whatever its size: `t(b) = t(1) (fixed + (1 - fixed) b)`.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Affine {
    fixed: f64,
}

/// The growth of every entry on a device with a degree, named `[growth.DEVICE, DEGREE]`; linear where the
/// file does not say it.
///
/// # Errors
/// When there is not one per group, or one is none.
pub(super) fn growth_of(
    own: Option<&DeviceGrowth>,
    [key, degree]: [&str; 2],
    groups: &[(Role, usize)],
    batch: usize,
) -> Result<Vec<Growth>> {
    let texts = match own {
        Some(DeviceGrowth::All(texts)) => Some(texts),
        Some(DeviceGrowth::ByDegree(degrees)) => degrees.get(degree),
        None => None,
    };
    let usual = vec![GrowthText::Word("linear".to_owned()); groups.len()];
    let texts = texts.unwrap_or(&usual);
    if texts.len() != groups.len() {
        let what = format!("expected {} of them, one per group of `layers`", groups.len());
        return Err(wrong(key, &what));
    }
    let each: Vec<Growth> = texts.iter().map(|text| read(text, key, batch)).collect::<Result<_>>()?;
    Ok(each.into_iter().zip(groups).flat_map(|(one, (_, n))| std::iter::repeat_n(one, *n)).collect())
}

fn read(text: &GrowthText, key: &str, batch: usize) -> Result<Growth> {
    match text {
        GrowthText::Word(word) if word == "linear" || word == "constant" => {
            Ok(Growth { points: vec![(1, 1.0)], is_linear: word == "linear" })
        }
        GrowthText::Points(points) if is_ascending(points) => {
            Ok(Growth { points: points.clone(), is_linear: true })
        }
        GrowthText::Affine(Affine { fixed }) if (0.0..=1.0).contains(fixed) => Ok(affine(*fixed, batch)),
        _ => Err(wrong(
            key,
            "expected `linear`, `constant`, points `[[1, 1.0], [4, 1.5]]` from size 1 on, or `{ fixed = 0.3 }`",
        )),
    }
}

/// Points at all sizes that a microbatch can have: those that divide the batch.
fn affine(fixed: f64, batch: usize) -> Growth {
    let sizes = (1..=batch).filter(|size| batch.is_multiple_of(*size));
    Growth {
        points: sizes.map(|size| (size, fixed + (1.0 - fixed) * size as f64)).collect(),
        is_linear: true,
    }
}

fn is_ascending(points: &[(usize, f64)]) -> bool {
    let is_fine = |point: &(usize, f64)| point.1.is_finite() && point.1 > 0.0;
    points.first().is_some_and(|first| first.0 == 1)
        && points.windows(2).all(|pair| pair[0].0 < pair[1].0)
        && points.iter().all(is_fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_affine_term_is_of_a_device_and_a_degree() {
        let own: DeviceGrowth = toml::from_str("1 = [{ fixed = 0.25 }]").expect("a table");
        let groups = [(Role::Layer, 2)];
        let factor = |degree: &str, size: usize| {
            growth_of(Some(&own), ["growth.x", degree], &groups, 8).expect("it is fine")[1].factor(size)
        };
        assert_eq!([factor("1", 1), factor("1", 2), factor("1", 8)], [1.0, 1.75, 6.25]);
        assert_eq!(factor("2", 8), 8.0, "another degree is linear");
    }
}
