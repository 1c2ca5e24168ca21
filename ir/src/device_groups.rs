//! Which devices there are, and which of them a collective brings together.

mod mesh;

use crate::attr::{Key, Value};
use crate::diag::{Diagnostic, Result};
use crate::module::{Instr, Module};
use crate::opcode::Opcode;
use crate::sharding::iota_ids;

/// The devices of a run: replicas of partitions.
#[derive(Clone, Copy, Debug)]
pub struct Devices {
    /// Replicas: devices of different ones share no partition.
    pub n_replicas: usize,
    /// Partitions of each replica.
    pub n_partitions: usize,
    /// The first device, where these are a part of those that the program is for.
    pub first: Option<usize>,
}

/// What the numbers in a collective's groups count.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// Replicas; every partition for itself.
    Replicas,
    /// Partitions; every replica for itself.
    Partitions,
    /// Replicas, with all their partitions.
    Both,
    /// Devices.
    Flat,
}

impl Devices {
    /// `n` devices, in as many replicas as the header says; without it, all are replicas of a program whose
    /// groups count replicas.
    ///
    /// # Errors
    /// When the replicas cannot share the devices.
    pub fn of(module: &Module, n: usize, first: Option<usize>) -> Result<Devices> {
        let replicas = module.attr("replica_count").and_then(|text| text.trim().parse::<usize>().ok());
        let implied = || if counts_replicas(module) { n.max(1) } else { 1 };
        let n_replicas = if n == 1 { 1 } else { replicas.unwrap_or_else(implied).max(1) };
        if n == 0 || !n.is_multiple_of(n_replicas) {
            return Err(Diagnostic::error(format!("{n_replicas} replicas cannot share {n} devices")));
        }
        if first.is_some() && n_replicas > 1 {
            return Err(Diagnostic::error("a part of the devices of several replicas is not run"));
        }
        Ok(Devices { n_replicas, n_partitions: n / n_replicas, first })
    }

    /// Number of devices.
    pub fn n_devices(self) -> usize {
        self.n_replicas * self.n_partitions
    }

    /// The groups of devices that an all-reduce, all-gather or their kin brings together.
    ///
    /// # Errors
    /// When the text is no list of groups, or names a device twice, none that is, or not all.
    pub fn groups(self, instr: &Instr) -> Result<Vec<Vec<usize>>> {
        let has_channel = instr.int(Key::ChannelId).is_some();
        let is_flat = matches!(instr.attr(Key::UseGlobalDeviceIds), Some(Value::Bool(true)));
        let reduces = instr.attr(Key::ToApply).is_some() || is_gather(instr);
        let mode = match (has_channel, is_flat, reduces) {
            (true, true, _) => Mode::Flat,
            (false, _, _) => Mode::Replicas,
            (true, false, true) => Mode::Both,
            (true, false, false) => Mode::Partitions,
        };
        let text = match instr.attr(Key::ReplicaGroups) {
            Some(Value::Raw(text)) => text.trim(),
            _ => "{}",
        };
        let groups = parse_groups(text).ok_or_else(|| {
            Diagnostic::error(format!("`replica_groups={text}` is not evaluated"))
                .help("write `{{0,1},{2,3}}` or `[2,2]<=[4]`")
        })?;
        let groups = self.expand(mode, self.own(groups)?)?;
        let once = self.check_once(groups.iter().flatten(), "is in two groups")?;
        match once.iter().position(|is_named| !is_named) {
            // A broadcast leaves the others zeros.
            Some(device) if instr.op != Opcode::CollectiveBroadcast => {
                Err(Diagnostic::error(format!("device {device} is in no group")))
            }
            _ => Ok(groups),
        }
    }

    /// Whether each device is named; an error if one is named twice.
    fn check_once<'a>(self, devices: impl Iterator<Item = &'a usize>, twice: &str) -> Result<Vec<bool>> {
        let mut is_named = vec![false; self.n_devices()];
        for &device in devices {
            if std::mem::replace(&mut is_named[device], true) {
                return Err(Diagnostic::error(format!("device {device} {twice}")));
            }
        }
        Ok(is_named)
    }

    /// The groups of the devices that run, which are counted from the first of them.
    fn own(self, groups: Vec<Vec<usize>>) -> Result<Vec<Vec<usize>>> {
        let Some(first) = self.first else { return Ok(groups) };
        let runs = |id: &usize| (first..first + self.n_devices()).contains(id);
        let is_torn = |group: &Vec<usize>| group.iter().any(runs) && !group.iter().all(runs);
        if groups.iter().any(is_torn) {
            return Err(Diagnostic::error("a collective needs devices that do not run"));
        }
        let own = groups.into_iter().filter(|group| group.iter().all(runs));
        Ok(own.map(|group| group.into_iter().map(|id| id - first).collect()).collect())
    }

    /// Pairs of devices that a `collective-permute` copies between.
    ///
    /// # Errors
    /// When the text is no list of pairs, names a device that is none, or two sources of one.
    pub fn pairs(self, instr: &Instr) -> Result<Vec<Vec<usize>>> {
        let text = match instr.attr(Key::SourceTargetPairs) {
            Some(Value::Raw(text)) => text.trim(),
            _ => "{}",
        };
        let pairs = parse_groups(text).filter(|pairs| pairs.iter().all(|pair| pair.len() == 2));
        let pairs = pairs.ok_or_else(|| Diagnostic::error(format!("`{text}` are no pairs of devices")))?;
        let pairs = self.own(pairs)?;
        if pairs.is_empty() {
            return Ok(pairs);
        }
        let by_partition = instr.int(Key::ChannelId).is_some();
        let pairs = self.expand(if by_partition { Mode::Partitions } else { Mode::Replicas }, pairs)?;
        self.check_once(pairs.iter().map(|pair| &pair[1]), "gets two values")?;
        Ok(pairs)
    }

    /// Groups of device numbers, of groups of whatever the mode counts; no groups mean one of all.
    fn expand(self, mode: Mode, mut groups: Vec<Vec<usize>>) -> Result<Vec<Vec<usize>>> {
        let (replicas, partitions) = (self.n_replicas, self.n_partitions);
        let n_ids = match mode {
            Mode::Replicas | Mode::Both => replicas,
            Mode::Partitions => partitions,
            Mode::Flat => self.n_devices(),
        };
        if groups.iter().all(Vec::is_empty) {
            groups = vec![(0..n_ids).collect()];
        }
        if let Some(id) = groups.iter().flatten().find(|&&id| id >= n_ids) {
            return Err(Diagnostic::error(format!("there is no device {id} among {n_ids}")));
        }
        Ok(match mode {
            Mode::Flat => groups,
            Mode::Replicas => once_for_each(partitions, &groups, |replica, own| replica * partitions + own),
            Mode::Partitions => {
                once_for_each(replicas, &groups, |partition, own| own * partitions + partition)
            }
            Mode::Both => {
                let all = |&replica: &usize| (0..partitions).map(move |own| replica * partitions + own);
                groups.iter().map(|group| group.iter().flat_map(all).collect()).collect()
            }
        })
    }
}

/// The groups or pairs of an instruction as its text numbers them; none where it lists none.
pub fn listed(instr: &Instr) -> Vec<Vec<usize>> {
    let text = [Key::ReplicaGroups, Key::SourceTargetPairs].into_iter().find_map(|key| instr.attr(key));
    match text {
        Some(Value::Raw(text)) => parse_groups(text.trim()).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Whether some collective has devices meet that are replicas of each other, and none others.
fn counts_replicas(module: &Module) -> bool {
    let mut collectives = module.comps.iter().flat_map(|comp| &comp.instrs).filter(|it| is_collective(it.op));
    let has_partitions = module.attr("num_partitions").is_some();
    let is_of_replicas = |instr: &Instr| instr.int(Key::ChannelId).is_none() && !listed(instr).is_empty();
    !has_partitions && collectives.clone().next().is_some() && collectives.all(is_of_replicas)
}

/// Whether an opcode has devices talk to each other.
pub fn is_collective(op: Opcode) -> bool {
    use Opcode::{
        AllGather, AllGatherStart, AllReduce, AllReduceStart, AllToAll, CollectiveBroadcast,
        CollectivePermute, CollectivePermuteStart, RaggedAllToAll, ReduceScatter,
    };
    matches!(op, AllGather | AllGatherStart | AllReduce | AllReduceStart | AllToAll | CollectiveBroadcast)
        || matches!(op, CollectivePermute | CollectivePermuteStart | RaggedAllToAll | ReduceScatter)
}

/// Every group `n` times: the devices that its ids are in each of the `n`.
fn once_for_each(n: usize, groups: &[Vec<usize>], device: impl Fn(usize, usize) -> usize) -> Vec<Vec<usize>> {
    let in_one = |group: &[usize], own: usize| group.iter().map(|&id| device(id, own)).collect();
    groups.iter().flat_map(|group| (0..n).map(|own| in_one(group, own)).collect::<Vec<_>>()).collect()
}

/// All-gathers group as reductions do, though they apply nothing.
fn is_gather(instr: &Instr) -> bool {
    matches!(instr.op, Opcode::AllGather | Opcode::AllGatherStart)
}

/// `{{0,1},{2,3}}`, `[2,4]<=[8]`, `[4,2]<=[2,4]T(1,0)`.
fn parse_groups(text: &str) -> Option<Vec<Vec<usize>>> {
    if text.starts_with('[') {
        return iota_groups(text);
    }
    if text.starts_with("mesh[") {
        return mesh::groups(text);
    }
    let inner = text.strip_prefix('{')?.strip_suffix('}')?.trim();
    if inner.is_empty() {
        return Some(Vec::new());
    }
    let groups = inner.split('}').map(|group| group.trim_matches([',', ' ', '{']));
    let numbers = |group: &str| group.split(',').map(|id| id.trim().parse().ok()).collect();
    let n = inner.matches('{').count();
    groups.take(n).map(|group| if group.is_empty() { Some(Vec::new()) } else { numbers(group) }).collect()
}

/// `[2,4]<=[8]`.
fn iota_groups(text: &str) -> Option<Vec<Vec<usize>>> {
    let (dims, rest) = text.split_once("<=")?;
    let ids = iota(rest)?;
    let [n_groups, size] = numbers(dims)?[..] else { return None };
    let fits = size > 0 && n_groups.checked_mul(size) == Some(ids.len() as i64);
    fits.then(|| ids.chunks(size as usize).map(<[usize]>::to_vec).collect())
}

/// `[2,4]T(1,0)`: so many devices in order, reshaped and transposed.
fn iota(text: &str) -> Option<Vec<usize>> {
    let (reshape, perm) = text.split_once('T').unwrap_or((text, ""));
    let reshape = numbers(reshape)?;
    let perm: Vec<u8> = match perm {
        "" => (0..reshape.len()).map(|axis| u8::try_from(axis).ok()).collect::<Option<_>>()?,
        text => numbers(text)?.into_iter().map(|axis| u8::try_from(axis).ok()).collect::<Option<_>>()?,
    };
    let n = reshape.iter().try_fold(1i64, |n, &size| n.checked_mul(size).filter(|&n| n <= 1 << 20))?;
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    let is_permutation = sorted.iter().enumerate().all(|(at, &axis)| at == usize::from(axis));
    let legal = n > 0 && reshape.iter().all(|&size| size > 0) && perm.len() == reshape.len();
    let ids = || iota_ids(&reshape, &perm).into_iter().map(|id| id as usize).collect();
    (legal && is_permutation).then(ids)
}

fn numbers(text: &str) -> Option<Vec<i64>> {
    text.trim().trim_matches(['[', ']', '(', ')']).split(',').map(|n| n.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lists_and_iotas() {
        assert_eq!(parse_groups("{{0,1},{2,3}}"), Some(vec![vec![0, 1], vec![2, 3]]));
        assert_eq!(parse_groups("{}"), Some(vec![]));
        assert_eq!(parse_groups("[2,4]<=[8]"), Some(vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]));
        assert_eq!(
            parse_groups("[4,2]<=[2,4]T(1,0)"),
            Some(vec![vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]])
        );
        assert_eq!(parse_groups("mesh['x'=2] {'x'}"), Some(vec![vec![0, 1]]));
        assert_eq!(parse_groups("[2,0]<=[0]"), None);
    }

    #[test]
    fn modes_expand_as_in_xla() {
        let devices = Devices { n_replicas: 2, n_partitions: 2, first: None };
        let expand = |mode| devices.expand(mode, vec![vec![0, 1]]).expect("legal");
        assert_eq!(expand(Mode::Replicas), [vec![0, 2], vec![1, 3]]);
        assert_eq!(expand(Mode::Partitions), [vec![0, 1], vec![2, 3]]);
        assert_eq!(expand(Mode::Both), [vec![0, 1, 2, 3]]);
        assert_eq!(expand(Mode::Flat), [vec![0, 1]]);
    }

    fn refused<T>(result: Result<T>) -> String {
        result.err().map_or_else(String::new, |error| error.message)
    }

    #[test]
    fn devices_are_replicas_of_partitions() {
        let of = |header: &str, n, first| {
            let module =
                crate::parse(&format!("HloModule m{header}\nENTRY e {{ ROOT x = f32[] parameter(0) }}"))
                    .expect("legal");
            Devices::of(&module, n, first)
        };
        let counts = |result: Result<Devices>| result.map(|it| (it.n_replicas, it.n_partitions)).ok();
        assert_eq!(counts(of(", replica_count=2", 6, None)), Some((2, 3)));
        assert_eq!(counts(of(", replica_count=2", 1, None)), Some((1, 1)));
        assert_eq!(counts(of("", 6, Some(2))), Some((1, 6)));
        assert_eq!(refused(of(", replica_count=2", 3, None)), "2 replicas cannot share 3 devices");
        assert_eq!(refused(of("", 0, None)), "1 replicas cannot share 0 devices");
        assert_eq!(
            refused(of(", replica_count=2", 4, Some(0))),
            "a part of the devices of several replicas is not run"
        );
    }

    /// The groups of the root on two replicas of two partitions.
    fn groups(root: &str) -> std::result::Result<Vec<Vec<usize>>, String> {
        let devices = Devices { n_replicas: 2, n_partitions: 2, first: None };
        crate::ops::check::with_root(&format!("x: f32[4]; ROOT y = {root}"), |view| match view.instr.op {
            Opcode::CollectivePermute => devices.pairs(view.instr).map_err(|error| error.message),
            _ => devices.groups(view.instr).map_err(|error| error.message),
        })
    }

    #[test]
    fn channels_and_global_numbers_say_what_groups_count() {
        let reduce = |attrs: &str| groups(&format!("f32[4] all-reduce(x), to_apply=add{attrs}"));
        assert_eq!(reduce(", replica_groups={{0,1}}"), Ok(vec![vec![0, 2], vec![1, 3]]));
        assert_eq!(reduce(", replica_groups={{0,1}}, channel_id=1"), Ok(vec![vec![0, 1, 2, 3]]));
        let flat = ", channel_id=1, use_global_device_ids=true";
        assert_eq!(
            reduce(&format!(", replica_groups={{{{0,3}},{{1,2}}}}{flat}")),
            Ok(vec![vec![0, 3], vec![1, 2]])
        );
        assert_eq!(reduce(&format!(", replica_groups={{}}{flat}")), Ok(vec![vec![0, 1, 2, 3]]));
        assert_eq!(
            groups("f32[16] all-gather(x), dimensions={0}, replica_groups={{0,1}}, channel_id=1"),
            Ok(vec![vec![0, 1, 2, 3]])
        );
        let exchange = "f32[4] all-to-all(x), dimensions={0}, replica_groups={{0,1}}, channel_id=1";
        assert_eq!(groups(exchange), Ok(vec![vec![0, 1], vec![2, 3]]));
    }

    #[test]
    fn every_device_is_in_one_group() {
        let flat = |list: &str| {
            groups(&format!(
                "f32[4] all-reduce(x), to_apply=add, replica_groups={list}, channel_id=1, use_global_device_ids=true"
            ))
        };
        assert_eq!(flat("{{0,1},{1,2}}"), Err("device 1 is in two groups".to_owned()));
        assert_eq!(flat("{{0,1},{3}}"), Err("device 2 is in no group".to_owned()));
        assert_eq!(flat("{{0,1},{2,4}}"), Err("there is no device 4 among 4".to_owned()));
        assert_eq!(flat("{0,1}x"), Err("`replica_groups={0,1}x` is not evaluated".to_owned()));
    }

    #[test]
    fn pairs_count_partitions_with_a_channel_and_replicas_without() {
        let pairs = |list: &str, rest: &str| {
            groups(&format!("f32[4] collective-permute(x), source_target_pairs={list}{rest}"))
        };
        assert_eq!(
            pairs("{{0,1},{1,0}}", ", channel_id=1"),
            Ok(vec![vec![0, 1], vec![2, 3], vec![1, 0], vec![3, 2]])
        );
        assert_eq!(pairs("{{0,1},{1,0}}", ""), Ok(vec![vec![0, 2], vec![1, 3], vec![2, 0], vec![3, 1]]));
        assert_eq!(pairs("{}", ""), Ok(vec![]));
        assert_eq!(pairs("{{0,1},{1,1}}", ""), Err("device 2 gets two values".to_owned()));
        assert_eq!(pairs("{{0,1,2}}", ""), Err("`{{0,1,2}}` are no pairs of devices".to_owned()));
    }

    #[test]
    fn a_part_of_the_devices_has_the_groups_that_are_its_own() {
        let devices = Devices { n_replicas: 1, n_partitions: 2, first: Some(2) };
        assert_eq!(devices.own(vec![vec![0, 1], vec![3, 2]]).expect("whole groups"), [vec![1, 0]]);
        assert_eq!(refused(devices.own(vec![vec![1, 2]])), "a collective needs devices that do not run");
        assert_eq!(refused(devices.own(vec![vec![3, 4]])), "a collective needs devices that do not run");
        assert_eq!(devices.own(vec![vec![0], vec![4, 5]]).expect("none"), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn lists_of_devices_that_are_none_are_refused() {
        assert_eq!(parse_groups("[2,3]<=[3,2]T(1,0)"), Some(vec![vec![0, 2, 4], vec![1, 3, 5]]));
        for text in [
            "[2,4]<=[7]",
            "[2,4]<=[2,4]T(1,1)",
            "[2,4]<=[2,4]T(0)",
            "[8]<=[8]",
            "[0,8]<=[8]",
            "[2,4]<=[-2,-4]",
            "[2,4]<=[2,4]T(0,2)",
            "{0,1",
            "x",
        ] {
            assert_eq!(parse_groups(text), None, "{text}");
        }
    }
}
