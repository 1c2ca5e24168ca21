//! Devices that are slower than they should be: how likely, by how much, and what to expect of a step.

use std::fmt;
use std::str::FromStr;

/// So many groups of devices are looked at in all their states; of more, so many states are drawn.
const MAX_ENUMERATED: usize = 10;
const N_DRAWN: usize = 256;

/// Every device by itself takes `slowdown` times as long to compute with a `probability`; links stay as fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Straggler {
    /// At least 1.
    pub slowdown: f64,
    /// From 0 to 1, per device and step.
    pub probability: f64,
}

impl FromStr for Straggler {
    type Err = String;

    /// `1.2x@5%`.
    fn from_str(text: &str) -> Result<Straggler, String> {
        let error = || format!("`{text}` is no slowdown and probability, such as `1.2x@5%`");
        let (slowdown, percent) = text.split_once("x@").ok_or_else(error)?;
        let percent = percent.strip_suffix('%').ok_or_else(error)?;
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|it| it.is_finite());
        let (slowdown, percent) = number(slowdown).zip(number(percent)).ok_or_else(error)?;
        if slowdown < 1.0 || !(0.0..=100.0).contains(&percent) {
            return Err(format!("`{text}`: a slowdown is at least 1, a probability from 0 to 100 %"));
        }
        Ok(Straggler { slowdown, probability: percent / 100.0 })
    }
}

impl fmt::Display for Straggler {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        // Percent as it was read: no digits of the division.
        write!(f, "{}x@{}%", self.slowdown, (self.probability * 1e12).round() / 1e10)
    }
}

impl Straggler {
    /// Seconds with one of them slow where `secs` are without, `moving_secs` of which move bytes.
    pub fn slowed_secs(&self, secs: f64, moving_secs: f64) -> f64 {
        secs + (self.slowdown - 1.0) * (secs - moving_secs).max(0.0)
    }

    /// The probability that one of so many devices is slow.
    pub fn any_of(&self, n_devices: usize) -> f64 {
        1.0 - (1.0 - self.probability).powi(n_devices as i32)
    }

    /// What is to be expected of a figure that depends on which groups of so many devices are as slow as a
    /// slow device: over all their states, or that of none and some drawn of the others. The same draws for
    /// the same numbers of groups, so that plans are compared in the same states.
    pub fn expected(&self, n_devices: &[usize], mut figure: impl FnMut(&[bool]) -> f64) -> f64 {
        let slow: Vec<f64> = n_devices.iter().map(|&n| self.any_of(n)).collect();
        let none: f64 = slow.iter().map(|p| 1.0 - p).product();
        if slow.len() > MAX_ENUMERATED {
            let at_all = none * figure(&vec![false; slow.len()]);
            let mut draws = Draws(0);
            // Evenly over which group is the first slow one.
            let first = |at: usize| (at as f64 + 0.5) / N_DRAWN as f64 * (1.0 - none);
            let drawn = (0..N_DRAWN).map(|at| figure(&draws.some_slow(&slow, first(at)))).sum::<f64>();
            return at_all + (1.0 - none) * drawn / N_DRAWN as f64;
        }
        let states = (0..1usize << slow.len()).map(|bits| {
            let is_slow: Vec<bool> = (0..slow.len()).map(|at| bits >> at & 1 == 1).collect();
            let share = slow.iter().zip(&is_slow).map(|(p, &is_slow)| if is_slow { *p } else { 1.0 - p });
            (share.product::<f64>(), is_slow)
        });
        states.filter(|(share, _)| *share > 0.0).map(|(share, is_slow)| share * figure(&is_slow)).sum()
    }
}

/// Numbers from 0 to 1 (SplitMix64; Steele, Lea and Flood, OOPSLA 2014).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A state in which one group is slow at least: the first of them is where the probability of that, over
    /// all groups up to it, reaches so much.
    fn some_slow(&mut self, slow: &[f64], mut left: f64) -> Vec<bool> {
        let (mut none_before, mut found) = (1.0, false);
        let mut state = Vec::with_capacity(slow.len());
        for (at, p) in slow.iter().enumerate() {
            let drawn = self.next();
            // The first of them; the last one where rounding leaves none.
            let is_first = !found && (left < none_before * p || at + 1 == slow.len());
            left -= if found { 0.0 } else { none_before * p };
            none_before *= 1.0 - p;
            state.push(is_first || found && drawn < *p);
            found |= is_first;
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn straggler(text: &str) -> Straggler {
        text.parse().expect("a slowdown and a probability")
    }

    #[test]
    fn a_slowdown_and_a_probability_are_read_and_written() {
        for text in ["1.2x@5%", "3x@0.1%", "1x@100%", "1.25x@33.3%"] {
            assert_eq!(straggler(text).to_string(), text);
        }
        for text in ["", "1.2", "1.2x@5", "0.9x@5%", "1.2x@101%", "1.2x@-1%", "NaNx@5%", "infx@5%", "x@%"] {
            assert!(text.parse::<Straggler>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_group_is_as_slow_as_its_slowest_device() {
        let it = straggler("2x@50%");
        assert_eq!(it.any_of(2), 0.75);
        let slowest = |is_slow: &[bool]| if is_slow.contains(&true) { 2.0 } else { 1.0 };
        assert_eq!(it.expected(&[2], slowest), 1.75);
        assert_eq!(it.expected(&[1, 1], slowest), 1.75);
        assert_eq!(it.slowed_secs(3.0, 1.0), 5.0);
    }

    #[test]
    fn drawn_states_say_what_all_states_would() {
        let it = straggler("1.5x@3%");
        let n_slow = |is_slow: &[bool]| is_slow.iter().filter(|&&it| it).count() as f64;
        let groups: Vec<usize> = (1..=16).collect();
        let exact: f64 = groups.iter().map(|&n| it.any_of(n)).sum();
        assert!((it.expected(&groups, n_slow) / exact - 1.0).abs() < 0.01);
        // That none is slow is counted exactly.
        let any = |is_slow: &[bool]| f64::from(u8::from(is_slow.contains(&true)));
        let all: usize = groups.iter().sum();
        assert!((it.expected(&groups, any) - it.any_of(all)).abs() < 1e-12);
    }

    #[test]
    fn nothing_slow_changes_nothing() {
        for text in ["1x@50%", "2x@0%"] {
            let it = straggler(text);
            let secs = |is_slow: &[bool]| if is_slow[0] { it.slowed_secs(4.0, 1.0) } else { 4.0 };
            assert!((it.expected(&[8; 3], secs) - 4.0).abs() < 1e-12);
            assert!((it.expected(&[8; 30], secs) - 4.0).abs() < 1e-12);
        }
    }
}
