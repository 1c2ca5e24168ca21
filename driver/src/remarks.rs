//! Programs as text, with what every instruction costs at the line's end.
//!
//! ```text
//! y = f32[…] dot(…), … // us=12x22.41 by=matrix bytes=14155776; us=12x21.7 by=all-gather over=y bytes=3145728; out=3145728 at=913080372
//! ```
//!
//! Grammar: docs/formats.md. Remarks follow from the text and the cluster alone, and parsing drops them: a
//! dump resumes to the same bytes.

use phzc_cost::{Cluster, Source};
use phzc_ir::{CompId, InstrId, Mesh, Module, Result, print, print_with};
use phzc_passes::block_notes;
use phzc_passes::derive::{Facts, derive, is_planned};
use phzc_passes::pricing::axes_of;
use phzc_passes::report::{Bound, Cost, InstrCosts, costs_of};
use std::fmt::Write;

/// Digits of a time: as many that a sum over all instructions is off by less than a millionth.
const N_DIGITS: i32 = 7;

/// The program as text; remarks if it has a plan, or phases, by which programs are priced.
pub(crate) fn text(module: &Module, cluster: &Cluster) -> Result<String> {
    match is_priced(module).then(|| derive(module)) {
        Some(Ok(facts)) => Ok(with_facts(module, &facts, cluster)),
        // A header that cannot be read is for the pass to refuse that needs it.
        Some(Err(error)) if is_planned(module) => Err(error),
        _ => Ok(print(module)),
    }
}

/// Whether `fuse` or a later pass has run: before that no instruction has a phase.
pub(crate) fn is_priced(module: &Module) -> bool {
    is_planned(module) || block_notes::is_noted(module)
}

/// The program as text, its facts known already.
pub(crate) fn with_facts(module: &Module, facts: &Facts, cluster: &Cluster) -> String {
    let costs = costs_of(module, facts, cluster);
    let mesh = |comp: CompId, id: InstrId| &facts.header.meshes[facts.comps[comp.index()][id.index()].stage];
    print_with(module, &|comp, id| costs[comp.index()].get(id.index()).map(|it| remark(it, mesh(comp, id))))
}

/// `us=12x9.7 by=hbm bytes=1024; us=11.4 by=all-reduce over=x bytes=512; out=512 at=4096`.
fn remark(costs: &InstrCosts, mesh: &Mesh) -> String {
    let mut out = String::new();
    costs.parts.iter().for_each(|cost| put_part(&mut out, cost, mesh));
    let _ = write!(out, "out={:.0} at={:.0}", costs.value_bytes, costs.memory_bytes + 0.0);
    out
}

fn put_part(out: &mut String, cost: &Cost, mesh: &Mesh) {
    out.push_str("us=");
    if cost.times != 1 {
        let _ = write!(out, "{}x", cost.times);
    }
    put_micros(out, cost.secs * 1e6);
    let _ = match cost.bound {
        Bound::Matrix => write!(out, " by=matrix"),
        Bound::Vector => write!(out, " by=vector"),
        Bound::Memory => write!(out, " by=hbm"),
        Bound::Launch => write!(out, " by=launch"),
        Bound::Collective(kind, axes) => {
            let names: Vec<&str> = axes_of(axes).map(|axis| mesh.axis_name(axis)).collect();
            write!(out, " by={kind} over={}", names.join(","))
        }
    };
    let _ = write!(out, " bytes={:.0}", cost.bytes);
    if cost.source != Source::Formula {
        let _ = write!(out, " from={}", cost.source.as_str());
    }
    out.push_str("; ");
}

/// Without zeros at the end: `22.41`.
fn put_micros(out: &mut String, micros: f64) {
    let n_before = micros.log10().floor() as i32 + 1;
    let n_decimals = (N_DIGITS - n_before).max(0) as usize;
    let text = format!("{micros:.n_decimals$}");
    out.push_str(if n_decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text });
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_cost::Collective;

    #[test]
    fn a_remark_has_the_kernel_then_the_collectives_then_memory() {
        let mesh = Mesh::parse("x=2,model=4").expect("a mesh");
        let kernel =
            Cost { bound: Bound::Memory, times: 1, secs: 9.7e-6, bytes: 4096.0, source: Source::Formula };
        let reduce = Cost {
            bound: Bound::Collective(Collective::AllReduce, 0b11),
            times: 12,
            secs: 1e-3,
            bytes: 8.0,
            source: Source::Measured,
        };
        let of = |parts: &[Cost]| {
            remark(&InstrCosts { parts: parts.to_vec(), value_bytes: 512.0, memory_bytes: 1536.0 }, &mesh)
        };
        assert_eq!(of(&[]), "out=512 at=1536");
        assert_eq!(of(&[kernel]), "us=9.7 by=hbm bytes=4096; out=512 at=1536");
        assert_eq!(
            of(&[kernel, reduce]),
            "us=9.7 by=hbm bytes=4096; us=12x1000 by=all-reduce over=x,model bytes=8 from=measured; out=512 at=1536"
        );
    }

    #[test]
    fn times_have_seven_digits_and_no_zeros_at_the_end() {
        let micros = |value: f64| {
            let mut out = String::new();
            put_micros(&mut out, value);
            out
        };
        assert_eq!(
            [4.0, 1.0 / 3.0, 12_345.678_9, 100.0, 1e9, 2.5e-4].map(micros),
            ["4", "0.3333333", "12345.68", "100", "1000000000", "0.00025"]
        );
    }

    #[test]
    fn remarks_are_for_programs_with_phases_and_vanish_when_read() {
        let cluster = Cluster::named("a100-8").expect("a known cluster");
        let plain =
            "HloModule m\n\nENTRY e {\n  x = f32[64,64] parameter(0)\n  ROOT y = f32[64,64] tanh(x)\n}\n";
        let module = phzc_ir::parse(plain).expect("legal");
        assert_eq!(text(&module, &cluster), Ok(plain.to_owned()));
        let mut planned = module.clone();
        planned.set_note("phzc.plan", "{}");
        let mut fused = module;
        let comp = fused.entry;
        fused.comps[comp.index()].instrs[1].set_note("phzc.phase", "fwd");
        for priced in [planned, fused] {
            let shown = text(&priced, &cluster).expect("legal notes");
            assert!(shown.lines().filter(|line| line.contains(" // ")).count() == 2, "{shown}");
            assert!(shown.contains("parameter(0) // out=16384 at=16384\n"), "{shown}");
            assert_eq!(print(&phzc_ir::parse(&shown).expect("legal")), print(&priced));
        }
    }
}
