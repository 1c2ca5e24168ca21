//! What a row's remark says of the network: links of a device inside its node, and what the node has outside.

use super::csv::Record;

/// The network of a remark; what it leaves open is the device's usual one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Network {
    /// Peak one-way bandwidth of one device inside its node, in bytes per second.
    pub inner_bytes_per_sec: Option<f64>,
    /// Bandwidth of a node to others, in bits per second.
    pub node_bits_per_sec: Option<f64>,
}

/// Networks between nodes by name, with Gb/s of one adapter where the name says it: the longer name first.
const OUTER: [(&str, f64); 15] = [
    ("omni-path", 100.0),
    ("omnipath", 100.0),
    ("hdr100", 100.0),
    ("hdr", 200.0),
    ("ndr200", 200.0),
    ("ndr", 400.0),
    ("xdr", 800.0),
    ("edr", 100.0),
    ("fdr", 56.0),
    ("slingshot", 200.0),
    ("roce", 0.0),
    ("ethernet", 0.0),
    ("infiniband", 0.0),
    ("rdma", 0.0),
    ("efa", 0.0),
];
/// Other words that say what a network is made of.
const OTHERS: [&str; 9] = ["nvlink", "nvswitch", "nvl72", "xgmi", "pcie", "ici", "tcp", "gbps", "gb/s"];
/// GB/s of one NVLink one way, by generation (NVIDIA's architecture white papers).
const NVLINK: [f64; 5] = [20.0, 25.0, 25.0, 25.0, 50.0];

/// The words for a warning's remedy.
pub(super) static WORDS: [&str; 5] =
    ["NVLink3 (12 links)", "8x HDR IB", "4x100 Gb/s RoCE", "800 Gb/s per node", "400 Gb/s per GPU"];

/// Whether the remark names any network, or says nothing.
pub(super) fn is_known(text: &str) -> bool {
    let text = text.to_lowercase();
    let has_word = |word: &str| text.split(|c: char| !c.is_ascii_alphanumeric()).any(|it| it == word);
    let names = || OUTER.iter().map(|(name, _)| *name).chain(OTHERS);
    text.is_empty() || has_word("ib") || names().any(|name| text.contains(name))
}

/// The network that the row's remark describes.
pub(super) fn of(row: Record, per_node: usize) -> Network {
    let text = row.text("interconnect").to_lowercase();
    let clauses = || text.split([';', '+', ',']);
    Network {
        inner_bytes_per_sec: clauses().find_map(links),
        node_bits_per_sec: clauses().find_map(|clause| outer(clause, per_node)).map(|gbit| 1e9 * gbit),
    }
}

/// `nvlink3 (4 links)`: bytes per second.
fn links(clause: &str) -> Option<f64> {
    let (_, rest) = clause.split_once("nvlink")?;
    let generation: usize = rest.get(..1)?.parse().ok()?;
    let (before, _) = rest.split_once("links")?;
    let count: f64 =
        before.rsplit(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty())?.parse().ok()?;
    let rate = NVLINK.get(generation.checked_sub(1)?)?;
    // The generation alone is no count.
    (rest.len() > before.len() && before.len() > 1 && count > 0.0).then_some(1e9 * rate * count)
}

/// Gb/s of a node: `800 gb/s per node`, `400 gb/s rdma per gpu`, `4x100gb roce`, `8x hdr ib`.
fn outer(clause: &str, per_node: usize) -> Option<f64> {
    let text = clause.replace("gbps", "gb/s").replace("gbe", "gb ethernet").replace(" gb", "gb");
    let (count, adapter) = match text.split_once("gb") {
        Some((before, _)) => counted(before.rsplit([' ', '(', ':']).next()?),
        None => named(&text)?,
    };
    let gbit = adapter.filter(|gbit| *gbit > 0.0)?;
    let is_shared = ["roce", "ethernet"].iter().any(|name| text.contains(name));
    match count {
        Some(count) => Some(count * gbit),
        None if text.contains("per gpu") => Some(gbit * per_node as f64),
        None => (text.contains("per node") || is_shared).then_some(gbit),
    }
}

/// `4x100`: a count and Gb/s; `100`: Gb/s.
fn counted(word: &str) -> (Option<f64>, Option<f64>) {
    match word.split_once('x') {
        Some((count, gbit)) => (count.parse().ok(), gbit.parse().ok()),
        None => (None, word.parse().ok()),
    }
}

/// `8x hdr`: a count and the Gb/s of what is named.
fn named(text: &str) -> Option<(Option<f64>, Option<f64>)> {
    let (at, gbit) = OUTER.iter().find_map(|(name, gbit)| Some((text.find(name)?, *gbit)))?;
    let before = text[..at].trim_end().strip_suffix('x').map(str::trim_end);
    let digits = before.map(|it| it.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    Some((digits.and_then(|digits| digits.parse().ok()), Some(gbit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_of_a_node_are_counted_in_any_of_the_usual_forms() {
        let gbit = |text: &str| outer(&text.to_lowercase(), 8);
        for (text, expected) in [
            ("inter-node 800 Gb/s per node (4x HDR)", Some(800.0)),
            ("400 Gb/s RDMA per GPU", Some(3200.0)),
            ("4x100Gb RoCE", Some(400.0)),
            ("4x100 Gb/s", Some(400.0)),
            ("4x Omni-Path per node", Some(400.0)),
            ("8x HDR200 IB", Some(1600.0)),
            ("25GbE", Some(25.0)),
            ("HDR IB", None),
            ("400 Gb/s", None),
            ("NVLink5", None),
        ] {
            assert_eq!(gbit(text), expected, "{text}");
        }
    }

    #[test]
    fn links_of_a_device_are_those_of_its_generation() {
        assert_eq!(links("nvlink3 (4 links)"), Some(1e11));
        assert_eq!(
            (links("nvlink5 (18 links)"), links("nvlink3"), links("4 links")),
            (Some(9e11), None, None)
        );
    }

    #[test]
    fn a_place_names_no_network() {
        assert!(is_known("") && is_known("Alps (GH200, Slingshot)") && is_known("NVLink + IB"));
        assert!(!is_known("MIT cluster (Titan-RTX/RTX-3090)"));
    }
}
