//! The chosen accelerator as a cluster file that `--cluster` takes.

use super::inputs::Inputs;
use super::place::Fleet;
use super::report::name;
use super::solve::{Chosen, Found};
use phzc_arch::mapping::Mode;
use std::fmt::Write;

/// Overheads that the search does not know, in seconds; the file has to have some.
const NO_SECS: f64 = 1e-15;

/// An accelerator of a mode, with the fleet's devices and links, as TOML.
pub(super) fn cluster_toml(
    (fleet, inputs, found): (&Fleet, &Inputs, &Found),
    mode: Mode,
    chosen: &Chosen,
) -> String {
    let hbm_bytes = chosen.candidate.runs.iter().flatten().map(|run| run.0.hbm_bytes).max();
    let models: Vec<&str> = inputs.models.iter().map(|model| model.name.as_str()).collect();
    let source = format!("phzc arch, mode {}, for {}", name(mode), models.join(", "));
    let efficiency = chosen.efficiency.iter().sum::<f64>() / chosen.efficiency.len() as f64;
    let mut text = cluster(found, fleet, chosen);
    text += &accelerator(found, chosen, hbm_bytes.unwrap_or_default());
    let _ = write!(text, "matmul_efficiency = {efficiency:.4}\nsource = {source:?}\n\n");
    text += &peaks(found, chosen);
    if mode == Mode::Native {
        // Products of other shapes than the search's are mapped too.
        let template = found.space.template(chosen.candidate.point.cores);
        let _ = write!(text, "\n[accelerator.template]\n{}", template.to_toml());
    }
    let _ = write!(
        text,
        "\n[accelerator.sources]\nmatmul_efficiency = \"multiply-accumulates of the mapped products over \
         those of all PEs\"\n\n[[levels]]\nname = \"link\"\nbytes_per_sec = {:e}\nlatency_secs = {NO_SECS:e}\n\
         source = {source:?}\n",
        fleet.link_bytes_per_sec
    );
    text
}

fn cluster(found: &Found, fleet: &Fleet, chosen: &Chosen) -> String {
    let arch = found.space.template(chosen.candidate.point.cores).name;
    let n_devices = fleet.n_devices;
    format!("name = \"{arch}-{n_devices}\"\nper_node = {n_devices}\nnodes = 1\n\n")
}

fn accelerator(found: &Found, chosen: &Chosen, hbm_bytes: u64) -> String {
    let template = found.space.template(chosen.candidate.point.cores);
    let (mm2, watts) = (chosen.candidate.point.um2 / 1e6, chosen.candidate.point.watts);
    let vector_flops_per_sec = template.cores.lanes() as f64 * template.clock_hz;
    let memory = format!(
        "hbm_bytes = {hbm_bytes}\nusable = 1.0\noutside_bytes = 1\nhbm_bytes_per_sec = {:e}\nhbm_efficiency = \
         1.0\n",
        template.hbm_bytes_per_sec
    );
    format!(
        "[accelerator]\nname = {:?}\ndescription = \"{mm2:.1} mm2, {watts:.0} W at its peak\"\n{memory}\
         vector_flops_per_sec = {vector_flops_per_sec:e}\nvector_efficiency = 1.0\nsustained = 1.0\n\
         launch_secs = {NO_SECS:e}\ncollective_launch_secs = {NO_SECS:e}\ntile_secs = {NO_SECS:e}\n",
        template.name
    )
}

/// Tensor cores have one type, of the width of a word; wider ones are not slower.
fn peaks(found: &Found, chosen: &Chosen) -> String {
    let peak = found.space.template(chosen.candidate.point.cores).peak_flops_per_sec();
    format!("[accelerator.peak_flops_per_sec]\nf32 = {peak:e}\nbf16 = {peak:e}\nf16 = {peak:e}\n")
}
