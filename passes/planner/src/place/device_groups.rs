//! Numbers of devices that a stage may have: powers of two within a node, whole nodes beyond, and what
//! divides all devices evenly.

use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Result, Span, counted};
use phzc_pass::pass::{OptionInfo, OptionKind};

/// The option.
pub const OPTION: OptionInfo = OptionInfo {
    name: "groups",
    kind: OptionKind::Checked("any, equal, or numbers of devices with `+` between", |text| {
        parse(text).map(drop)
    }),
    default: "any",
    help: "devices of a stage: any number that the cluster can be divided into, one for all stages (equal), or only these, such as 4+2",
};

/// Which numbers of devices stages may have.
#[derive(Clone, Debug)]
pub struct Groups {
    wanted: Wanted,
    n_devices: usize,
    per_node: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Any,
    Equal,
    /// Ascending.
    Only(Vec<usize>),
}

fn parse(text: &str) -> Result<Wanted> {
    match text {
        "any" => return Ok(Wanted::Any),
        "equal" => return Ok(Wanted::Equal),
        _ => {}
    }
    let mut sizes = Vec::new();
    let mut start = 0;
    for part in text.split('+') {
        let size = part.parse().ok().filter(|&size: &usize| size > 0);
        let error = || Diagnostic::error(format!("`{part}` is no number of devices"));
        let span = Span::new(start, start + part.len());
        sizes.push(
            size.ok_or_else(|| error().at(span).help("write `any`, `equal`, or numbers such as `4+2`"))?,
        );
        start += part.len() + 1;
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(Wanted::Only(sizes))
}

impl Groups {
    /// What the option says for a cluster.
    ///
    /// # Errors
    /// When stages with so many devices cannot be put on the cluster, or not so that all are used.
    pub fn read(text: &str, cluster: &Cluster) -> Result<Groups> {
        let (n_devices, per_node) = (cluster.n_devices(), cluster.per_node());
        let groups = Groups { wanted: parse(text)?, n_devices, per_node };
        let Wanted::Only(sizes) = &groups.wanted else { return Ok(groups) };
        if let Some(&size) = sizes.iter().find(|&&size| !groups.tiles(size)) {
            let message = format!("no stage can have {} of `{}`", counted(size, "device"), cluster.name);
            let nodes = format!(
                "a node has {per_node}, all have {n_devices}: a stage has at most a node's, or whole nodes"
            );
            return Err(Diagnostic::error(message).help(nodes));
        }
        if !is_sum(n_devices, sizes) {
            let message = format!(
                "stages with `groups={text}` devices cannot use all {n_devices} of `{}`",
                cluster.name
            );
            return Err(Diagnostic::error(message).help("add a number of devices, such as 1"));
        }
        Ok(groups)
    }

    /// Whether all stages are to have as many devices.
    pub fn is_equal(&self) -> bool {
        match &self.wanted {
            Wanted::Any => false,
            Wanted::Equal => true,
            Wanted::Only(sizes) => sizes.len() == 1,
        }
    }

    /// The option as it was given, after others.
    pub fn noted(&self) -> String {
        match &self.wanted {
            Wanted::Any => String::new(),
            Wanted::Equal => ",groups=equal".to_owned(),
            Wanted::Only(sizes) => {
                let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
                format!(",groups={}", sizes.join("+"))
            }
        }
    }

    /// Whether sizes were named.
    pub fn is_asked(&self) -> bool {
        matches!(self.wanted, Wanted::Only(_))
    }

    /// Whether a stage may have so many devices.
    pub fn has(&self, size: usize) -> bool {
        match &self.wanted {
            Wanted::Any | Wanted::Equal => true,
            Wanted::Only(sizes) => sizes.contains(&size),
        }
    }

    /// What a stage may have beside others that have more or less, ascending.
    pub fn sizes(&self) -> Vec<usize> {
        let is_usual = |size: usize| {
            let unit = if size > self.per_node { self.per_node } else { 1 };
            (size / unit).is_power_of_two() || self.n_devices.is_multiple_of(size)
        };
        let is_asked = |size: usize| matches!(self.wanted, Wanted::Only(_)) || is_usual(size);
        (1..self.n_devices).filter(|&size| self.tiles(size) && self.has(size) && is_asked(size)).collect()
    }

    /// Whether so many devices are part of a node, or whole nodes.
    fn tiles(&self, size: usize) -> bool {
        size <= self.n_devices && (size <= self.per_node || size.is_multiple_of(self.per_node))
    }

    /// Whether stages may have these numbers of devices.
    pub fn allows(&self, sizes: &[usize]) -> bool {
        let is_equal = sizes.iter().all(|size| *size == sizes[0]);
        (is_equal || self.wanted != Wanted::Equal) && sizes.iter().all(|&size| self.has(size))
    }

    /// Why no number of stages, or not this one, is possible.
    pub fn no_count(&self, wanted: usize) -> Diagnostic {
        let (stages, devices) = (counted(wanted, "stage"), counted(self.n_devices, "device"));
        match wanted {
            0 => Diagnostic::error("no number of stages has as many devices in each as `groups` says")
                .help("allow other numbers of devices, or stages of different sizes: not with an interleaved schedule"),
            _ if wanted > self.n_devices => Diagnostic::error(format!("{stages} need as many devices, there are {}", self.n_devices))
                .help("ask for fewer stages"),
            _ => Diagnostic::error(format!("{stages} do not divide {devices} evenly, or not as `groups` says"))
                .help("ask for another number, or allow other `groups`; one stage, and groups of an interleaved schedule, are never of different sizes"),
        }
    }

    /// Why there is no plan, where the option left few.
    pub fn explained(&self, error: Diagnostic) -> Diagnostic {
        let Wanted::Only(sizes) = &self.wanted else { return error };
        let fewest = self.n_devices.div_ceil(*sizes.last().expect("a size was named"));
        let help =
            format!("`groups` makes {} at least: allow other numbers of devices", counted(fewest, "stage"));
        error.help(help)
    }
}

/// Whether a number is a sum of some of these.
fn is_sum(total: usize, parts: &[usize]) -> bool {
    let mut is_reached = vec![true; 1];
    for sum in 1..=total {
        is_reached.push(parts.iter().any(|&part| part <= sum && is_reached[sum - part]));
    }
    is_reached[total]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(text: &str, cluster: &str) -> Result<Groups> {
        Groups::read(text, &Cluster::named(cluster).expect("a known cluster"))
    }

    #[test]
    fn stages_have_powers_of_two_of_a_node_whole_nodes_and_what_divides_all_devices() {
        let sizes = |text: &str, cluster: &str| groups(text, cluster).expect("legal").sizes();
        assert_eq!(sizes("any", "a100-6"), [1, 2, 3, 4]);
        assert_eq!(sizes("any", "a100-8x4"), [1, 2, 4, 8, 16]);
        assert_eq!(sizes("8+24", "a100-8x4"), [8, 24]);
        let of = |n_devices, per_node| Groups { wanted: Wanted::Any, n_devices, per_node }.sizes();
        assert_eq!([of(9, 3), of(15, 3)], [vec![1, 2, 3, 6], vec![1, 2, 3, 6, 12]]);
    }

    #[test]
    fn what_cannot_be_put_on_the_cluster_is_refused() {
        let message = |text: &str| groups(text, "a100-8x2").expect_err("it cannot").message;
        assert_eq!(message("12+4"), "no stage can have 12 devices of `a100-8x2`");
        assert_eq!(message("3"), "stages with `groups=3` devices cannot use all 16 of `a100-8x2`");
        assert_eq!(message("4+x"), "`x` is no number of devices");
        let span = |text: &str| groups(text, "a100-8").expect_err("it cannot").span;
        assert_eq!([span("4+2+x"), span("4+0+12")], [Some(Span::new(4, 5)), Some(Span::new(2, 3))]);
    }

    #[test]
    fn an_option_says_which_sizes_stages_may_have_and_is_noted() {
        let read = |text: &str| groups(text, "a100-8").expect("legal");
        let facts = |text: &str| {
            let it = read(text);
            (it.is_equal(), it.is_asked(), it.noted())
        };
        assert_eq!(facts("any"), (false, false, String::new()));
        assert_eq!(facts("equal"), (true, false, ",groups=equal".to_owned()));
        assert_eq!(facts("4"), (true, true, ",groups=4".to_owned()));
        assert_eq!(facts("4+2+2"), (false, true, ",groups=2+4".to_owned()));
        assert!(read("4+2").has(2) && !read("4+2").has(1) && read("equal").has(1));
    }

    #[test]
    fn stages_have_sizes_that_the_option_allows() {
        let allows = |text: &str, sizes: &[usize]| groups(text, "a100-8").expect("legal").allows(sizes);
        assert!(allows("any", &[4, 2, 2]) && allows("any", &[4, 4]));
        assert!(allows("equal", &[4, 4]) && !allows("equal", &[4, 2, 2]));
        assert!(allows("4+2", &[4, 2, 2]) && !allows("4+2", &[4, 3, 1]) && !allows("4+2", &[8]));
    }

    #[test]
    fn a_sum_has_parts_that_repeat() {
        assert_eq!([1, 3, 6, 7, 8].map(|total| is_sum(total, &[3, 4])), [false, true, true, true, true]);
        assert!(!is_sum(5, &[3, 4]) && !is_sum(2, &[3]));
    }

    #[test]
    fn who_asks_for_too_much_hears_why() {
        let it = groups("4", "a100-8").expect("legal");
        let message = |n_stages: usize| it.no_count(n_stages).message;
        assert_eq!(message(0), "no number of stages has as many devices in each as `groups` says");
        assert_eq!(message(9), "9 stages need as many devices, there are 8");
        assert_eq!(message(8), "8 stages do not divide 8 devices evenly, or not as `groups` says");
        let help = it.explained(Diagnostic::error("too large")).help.expect("with help");
        assert_eq!(help, "`groups` makes 2 stages at least: allow other numbers of devices");
    }
}
