//! Products and collectives as programs, from their keys: HLO text of one device.

use phzc_ir::DType;
use phzc_passes::pricing::keys;
use std::fmt::Write;

/// The program of a key; none for what is measured in segments only, or has no whole sizes.
pub(super) fn of(key: &str, n_devices: usize) -> Option<String> {
    let words: Vec<&str> = key.split(' ').collect();
    match words[..] {
        [keys::PRODUCT, dtype, sizes, "sums", sums] => product(dtype, sizes, sums, false, n_devices),
        [keys::PRODUCT, dtype, sizes, "sums", sums, "outside"] => {
            product(dtype, sizes, sums, true, n_devices)
        }
        [kind, bytes, "bytes", "over", groups] => {
            collective(kind, bytes.parse().ok()?, &Groups::read(groups, n_devices)?)
        }
        _ => None,
    }
}

/// A name for a text, of 16 digits: 64-bit FNV-1a.
pub(super) fn hash(text: &str) -> String {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
}

/// A whole number above zero.
fn size(text: &str) -> Option<u64> {
    text.parse().ok().filter(|size| *size > 0)
}

fn product(dtype: &str, sizes: &str, sums: &str, is_outside: bool, n_devices: usize) -> Option<String> {
    let dtype: DType = if dtype == "tf32" { DType::F32 } else { DType::parse(dtype)? };
    let dtype = dtype.as_str();
    let sizes: Vec<u64> = sizes.split('x').map(size).collect::<Option<_>>()?;
    let [batch, rows, columns] = sizes[..] else { return None };
    let sums = size(sums)?;
    let (lead, at) = if batch == 1 { (String::new(), 0) } else { (format!("{batch},"), 1) };
    let (left, summed) =
        if is_outside { (format!("{sums},{rows}"), at) } else { (format!("{rows},{sums}"), at + 1) };
    let batches = if at == 1 { ", lhs_batch_dims={0}, rhs_batch_dims={0}" } else { "" };
    Some(format!(
        "HloModule product, frontend_attributes={{phzc.spmd=\"x={n_devices}\"}}\n\nENTRY main {{\n  \
         v0 = {dtype}[{lead}{left}] parameter(0)\n  v1 = {dtype}[{lead}{sums},{columns}] parameter(1)\n  \
         ROOT v2 = {dtype}[{lead}{rows},{columns}] dot(v0, v1){batches}, lhs_contracting_dims={{{summed}}}, \
         rhs_contracting_dims={{{at}}}\n}}\n"
    ))
}

/// A mesh on which some axes are the groups that talk.
struct Groups {
    /// Size, stride and whether devices along it talk, outermost first.
    axes: Vec<(u64, u64, bool)>,
}

impl Groups {
    /// `2:4,2:1` of eight devices is a mesh of `2x2x2` whose first and last axis talk.
    fn read(text: &str, n_devices: usize) -> Option<Groups> {
        let pair = |part: &str| part.split_once(':').and_then(|(n, stride)| Some((size(n)?, size(stride)?)));
        let mut talking: Vec<(u64, u64)> = text.split(',').map(pair).collect::<Option<_>>()?;
        talking.sort_by_key(|axis| std::cmp::Reverse(axis.1));
        let (mut axes, mut left) = (Vec::new(), n_devices as u64);
        for (n, stride) in talking {
            let extent = n * stride;
            if !left.is_multiple_of(extent) {
                return None;
            }
            axes.push((left / extent, extent, false));
            axes.push((n, stride, true));
            left = stride;
        }
        axes.push((left, 1, false));
        axes.retain(|axis| axis.0 > 1);
        Some(Groups { axes })
    }

    /// `a=2,b=4`.
    fn mesh(&self) -> String {
        let name =
            |(at, axis): (usize, &(u64, u64, bool))| format!("{}={}", (b'a' + at as u8) as char, axis.0);
        self.axes.iter().enumerate().map(name).collect::<Vec<_>>().join(",")
    }

    fn n_talking(&self) -> u64 {
        self.axes.iter().filter(|axis| axis.2).map(|axis| axis.0).product()
    }

    /// The devices of every group.
    fn groups(&self) -> Vec<Vec<u64>> {
        let along = |talks: bool, first: u64| {
            self.axes.iter().filter(move |axis| axis.2 == talks).fold(vec![first], |devices, axis| {
                devices.iter().flat_map(|device| (0..axis.0).map(move |at| device + at * axis.1)).collect()
            })
        };
        along(false, 0).into_iter().map(|first| along(true, first)).collect()
    }
}

/// `bytes` as the prices have them: an all-gather's result, else what a device sends.
fn collective(kind: &str, bytes: u64, groups: &Groups) -> Option<String> {
    let n = groups.n_talking();
    let (dtype, width) = if bytes.is_multiple_of(4 * n) { ("f32", 4) } else { ("u8", 1) };
    let (all, part) = (bytes / width, (bytes / width / n).max(1));
    let listed: Vec<String> = groups.groups().iter().map(|group| braced(group)).collect();
    let over = format!("channel_id=1, replica_groups={{{}}}", listed.join(","));
    let by = ", use_global_device_ids=true";
    let (given, op) = match kind {
        "all-reduce" => (format!("[{all}]"), format!("[{all}] all-reduce(v0), {over}{by}, to_apply=sum")),
        "all-gather" => {
            (format!("[{part}]"), format!("[{}] all-gather(v0), {over}{by}, dimensions={{0}}", part * n))
        }
        "reduce-scatter" => (
            format!("[{}]", part * n),
            format!("[{part}] reduce-scatter(v0), {over}{by}, dimensions={{0}}, to_apply=sum"),
        ),
        "all-to-all" => {
            (format!("[{n},{part}]"), format!("[{n},{part}] all-to-all(v0), {over}, dimensions={{0}}"))
        }
        "collective-permute" => {
            let pairs = format!("channel_id=1, source_target_pairs={{{}}}", pairs(groups));
            (format!("[{all}]"), format!("[{all}] collective-permute(v0), {pairs}"))
        }
        _ => return None,
    };
    let mut out =
        format!("HloModule collective, frontend_attributes={{phzc.spmd=\"{}\"}}\n\n", groups.mesh());
    let _ = write!(
        out,
        "sum {{\n  a = {dtype}[] parameter(0)\n  b = {dtype}[] parameter(1)\n  ROOT c = {dtype}[] add(a, b)\n}}\n\n\
         ENTRY main {{\n  v0 = {dtype}{given} parameter(0)\n  ROOT v1 = {dtype}{op}\n}}\n"
    );
    Some(out)
}

/// Each device of a group to the next one.
fn pairs(groups: &Groups) -> String {
    let of_group = |group: Vec<u64>| {
        let next = group.iter().cycle().skip(1).copied();
        group.iter().copied().zip(next).map(|(from, to)| braced(&[from, to])).collect::<Vec<_>>()
    };
    groups.groups().into_iter().flat_map(of_group).collect::<Vec<_>>().join(",")
}

fn braced(items: &[u64]) -> String {
    format!("{{{}}}", items.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program of a key is legal; its text.
    fn legal(key: &str) -> String {
        let text = of(key, 8).unwrap_or_else(|| panic!("{key}"));
        let module = phzc_ir::parse(&text).unwrap_or_else(|error| panic!("{key}: {error:?}"));
        assert_eq!(phzc_ir::verify(&module), [], "{text}");
        text
    }

    #[test]
    fn products_and_collectives_are_legal_programs() {
        assert!(legal("product tf32 1x4x8 sums 16").contains("f32[4,8] dot(v0, v1)"));
        assert!(legal("product bf16 2x4x8 sums 16 outside").contains("v0 = bf16[2,16,4]"));
        for kind in ["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"] {
            for groups in ["8:1", "2:4", "4:1", "2:4,4:1", "2:2"] {
                legal(&format!("{kind} 4096 bytes over {groups}"));
                legal(&format!("{kind} 6 bytes over {groups}"));
            }
        }
    }

    #[test]
    fn groups_are_those_of_the_key() {
        let groups = |text: &str| Groups::read(text, 8).map(|groups| (groups.mesh(), groups.groups()));
        let (mesh, found) = groups("2:2").expect("legal");
        assert_eq!(mesh, "a=2,b=2,c=2");
        assert_eq!(found, [[0, 2], [1, 3], [4, 6], [5, 7]]);
        assert_eq!(groups("2:4").expect("legal").1, [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(groups("3:1"), None);
    }

    #[test]
    fn what_has_no_whole_sizes_or_is_no_product_has_no_program() {
        for key in ["product tf32 1x0.5x8 sums 16", "loop 3 flops 0 exps 8 bytes", "product tf32 7 flops"] {
            assert_eq!(of(key, 8), None, "{key}");
        }
    }
}
