//! The device that a cell names, with remarks around the name or a count in front of it.

use super::job::Expressed;
use phzc_cost::{Accelerator, known_accelerators};

/// The device of that name: exactly, in lower case, or without a remark in parentheses or a count in front.
pub(crate) fn device(name: &str) -> Expressed<&'static Accelerator> {
    if name.contains('+') {
        return Err(format!("its devices differ: {name}"));
    }
    let bare = name.split(" (").next().unwrap_or(name);
    let counted = bare.split_once('x').filter(|(n, _)| n.bytes().all(|byte| byte.is_ascii_digit()));
    let bare = counted.map_or(bare, |(_, rest)| rest);
    let tries = [name.to_owned(), bare.to_owned(), bare.to_lowercase()];
    let found = tries.iter().find_map(|one| Accelerator::named(one).ok());
    found.or_else(|| resembling(name)).ok_or_else(|| format!("its device is not known: {name}"))
}

/// The device whose name, or an alias, makes up the longest part of the text, if the rest does not contradict
/// it: `NVIDIA H100 80GB HBM3` is an H100, `h1000` and `a100-81` are none.
fn resembling(text: &str) -> Option<&'static Accelerator> {
    let names = known_accelerators()
        .iter()
        .flat_map(|one| one.aliases.iter().chain([&one.name]).map(move |name| (name.as_str(), one)));
    let parts = names.filter(|(name, _)| plain(name).len() >= LEAST_NAME);
    let found = parts.filter_map(|(name, one)| Some((plain(name).len(), after(text, name)?, one)));
    let (_, rest, device) = found.max_by_key(|(length, ..)| *length)?;
    agreeing(device, rest)
}

/// Shorter names are parts of too many words.
const LEAST_NAME: usize = 4;

/// Letters and digits, in lower case.
fn plain(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// What follows a name within a text, whatever stands between its letters and digits; a number that goes on
/// is another name.
fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let places: Vec<usize> =
        text.char_indices().filter(|(_, c)| c.is_ascii_alphanumeric()).map(|(at, _)| at).collect();
    let name = plain(name);
    let start = plain(text).find(&name)?;
    let rest = &text[places[start + name.len() - 1] + 1..];
    (!rest.starts_with(|c: char| c.is_ascii_digit())).then_some(rest)
}

/// The device, with what is said after its name: its memory, or a count of devices. Another memory is that of
/// a sibling, or nobody's.
fn agreeing(device: &'static Accelerator, rest: &str) -> Option<&'static Accelerator> {
    let Some((number, is_memory)) = stated(rest) else { return Some(device) };
    let max_devices = device.node.as_ref().map_or(1, |node| node.max_devices) as u64;
    let is_count = !is_memory && (1..=max_devices).contains(&number);
    if is_count || number == gibibytes(device) {
        return Some(device);
    }
    let generation = device.name.split('-').next()?;
    Accelerator::named(&format!("{generation}-{number}")).ok()
}

fn gibibytes(device: &Accelerator) -> u64 {
    (device.hbm_bytes / f64::from(1 << 30)).round() as u64
}

/// The memory in GB that a remark states, else the number that it begins with; whether it is the memory.
fn stated(rest: &str) -> Option<(u64, bool)> {
    let lower = rest.to_ascii_lowercase();
    let leading = lower.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let n_digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (first, unit) = leading.split_at(n_digits(leading));
    let is_bare = !unit.trim_start().starts_with("gb");
    let first = first.parse().ok().filter(|_| is_bare).map(|number| (number, false));
    let parts = lower.match_indices("gb").map(|(at, _)| (lower[..at].trim_end(), &lower[at + 2..]));
    // `400Gb/s` and `400Gbps` are networks.
    let mut sizes = parts.filter(|(_, after)| !after.starts_with(['/', 'p']));
    let memory = sizes.find_map(|(before, _)| {
        let number = before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        before[number..].parse().ok().map(|number| (number, true))
    });
    memory.or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, name: Option<&str>) {
        assert_eq!(device(text).ok().map(|device| device.name.as_str()), name, "{text}");
    }

    #[test]
    fn a_name_within_remarks_is_found() {
        check("NVIDIA H100 80GB HBM3", Some("h100-80"));
        check("H100, 400Gb/s per GPU", Some("h100-80"));
        check("8xBM.GPU.B200.8", Some("b200-180"));
        check("hpg.dgxb200x8.n32", Some("b200-180"));
        check("b200_8x8_ngc25.09", Some("b200-180"));
        check("16xGH-96", Some("gh200-96"));
        check("TPU v6e (Trillium)", Some("tpu-v6e"));
    }

    #[test]
    fn a_longer_number_or_a_memory_that_no_device_has_is_another_device() {
        for text in
            ["a100-81", "A1000", "h1000", "A100-SXM4-81GB", "V100 64 GB", "H100-9", "é a100é80é1000GB"]
        {
            check(text, None);
        }
    }

    #[test]
    fn the_memory_that_is_stated_chooses_among_siblings() {
        check("A100-SXM-40GB", Some("a100-40"));
        check("Tesla V100-PCIE-16GB", Some("v100-16"));
        check("A100 SXM 80 GB", Some("a100-80"));
    }
}
