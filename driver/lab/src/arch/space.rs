//! The accelerators that `phzc arch` looks at: those that are named, or a space.

use super::args::ArchArgs;
use phzc_arch::area::{area_um2, peak_watts};
use phzc_arch::space::Point;
use phzc_arch::{Cores, Space, Technology, Template};
use phzc_io::files;
use phzc_ir::{Diagnostic, Result};
use std::path::Path;

/// A square millimetre.
const UM2_PER_MM2: f64 = 1e6;

/// The space within the limits of the command line; HBM, clock and word are those of the first accelerator
/// that is named, else the TPU v4 proxy's.
pub(super) fn space(args: &ArchArgs, technology: &Technology) -> Result<Space> {
    let mut space = Space::phaze(technology)?;
    if let Some(mm2) = args.area_mm2 {
        space.max_um2 = mm2 * UM2_PER_MM2;
    }
    space.max_watts = args.max_watts.unwrap_or(f64::INFINITY);
    if let Some(name) = args.arch.first() {
        space.base = template(name, &space.base)?;
    }
    Ok(space)
}

/// Its accelerators: those that are named, limits or not, or else all within the limits.
pub(super) fn points(args: &ArchArgs, space: &Space, technology: &Technology) -> Result<Vec<Point>> {
    if args.arch.is_empty() {
        let points = space.points(technology)?;
        let none =
            || Diagnostic::error("no accelerator is within the limits").help("give more area or power");
        return (!points.is_empty()).then_some(points).ok_or_else(none);
    }
    args.arch.iter().map(|name| point(&template(name, &space.base)?, space, technology)).collect()
}

fn point(template: &Template, space: &Space, technology: &Technology) -> Result<Point> {
    let rates = |it: &Template| (it.hbm_bytes_per_sec, it.clock_hz, it.word_bytes);
    if rates(template) != rates(&space.base) {
        let message = format!("`{}` has another clock, HBM bandwidth or word than the first", template.name);
        return Err(Diagnostic::error(message).help("compare it in a run of its own"));
    }
    let um2 = area_um2(&template.cores, technology)?;
    Ok(Point { cores: template.cores, um2, watts: peak_watts(template, technology)? })
}

/// An accelerator by what names it.
fn template(name: &str, base: &Template) -> Result<Template> {
    if name.ends_with(".toml") {
        return Template::read(&files::read(Path::new(name), files::MAX_CLUSTER_BYTES)?);
    }
    let numbers: Option<Vec<u64>> = name.split(',').map(|part| part.trim().parse().ok()).collect();
    let Some([n_tensor, n_vector, width, depth, mib]) = numbers.as_deref() else {
        return Template::preset(name);
    };
    let (n_tensor, n_vector, width, depth) = (*n_tensor, *n_vector, *width, *depth);
    let cores = Cores { n_tensor, n_vector, width, depth, global_bytes: mib.saturating_mul(1 << 20) };
    // Reading checks the numbers.
    Template::read(&Template { name: name.to_owned(), cores, ..base.clone() }.to_toml())
}
