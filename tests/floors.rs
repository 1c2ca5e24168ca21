//! No prediction is below what the hardware can do: operations at its peak, weights read at its bandwidth.

use crate::common::{corpus, phzc, program, root, scratch, xla_bench};
use phzc_cost::Cluster;
use phzc_driver::validate::{MeasuredJob, jobs};
use phzc_driver::{Interrupt, Io};
use phzc_ir::flops::totals;
use phzc_ir::parse;
use std::path::{Path, PathBuf};

/// The published tables beside the checkout.
fn tables() -> Vec<PathBuf> {
    let folder = root().join("../shared/data/published");
    let files = std::fs::read_dir(&folder).map(|files| files.flatten().map(|file| file.path()).collect());
    let mut files: Vec<PathBuf> = files.unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|it| it == "csv"));
    files.sort();
    if files.is_empty() {
        eprintln!("SKIPPED: no ../shared/data/published");
    }
    files
}

/// The runs of a table; none of a table of other things.
fn runs(path: &Path) -> Vec<MeasuredJob> {
    let mut io = Io {
        stdin: &mut &[][..],
        stdout: &mut Vec::new(),
        stderr: &mut Vec::new(),
        color: false,
        progress: &|_| {},
        interrupt: &Interrupt::default(),
        clock: &|| 0.0,
    };
    jobs(path, &mut io).unwrap_or_default().jobs
}

#[test]
fn no_published_run_is_predicted_faster_than_its_operations_at_peak_and_its_weights_read_once() {
    let mut n_runs = 0;
    for run in tables().iter().flat_map(|path| runs(path)) {
        let (job, device) = (&run.job, &run.cluster.accelerator);
        let n_devices = job.layout.n_devices() as f64;
        let least_secs =
            job.model_flops() / n_devices / device.peak_flops_per_sec.of(job.stack.product_dtype);
        let weights = 2.0 * job.model.params() / n_devices * job.layout.data as f64;
        let read_secs = weights / device.hbm_bytes_per_sec;
        let predicted = run.listed_secs;
        assert!(predicted >= least_secs, "{}: {predicted} s, at peak {least_secs} s", run.name);
        assert!(predicted >= read_secs, "{}: {predicted} s, weights take {read_secs} s", run.name);
        n_runs += 1;
    }
    eprintln!("{n_runs} runs");
    assert!(n_runs > 500 || tables().is_empty(), "{n_runs} runs");
}

#[test]
fn no_program_is_estimated_faster_than_its_products_at_peak() {
    let peak = Cluster::named("a100-1").expect("known").accelerator.peak_flops_per_sec.of("bf16");
    let texts: Vec<PathBuf> = [corpus(), xla_bench()].concat();
    for path in texts.iter().filter(|path| !program(path).contains("replica_groups=")) {
        let Ok(module) = parse(&program(path)) else { continue };
        let is_free = module.comps.iter().flat_map(|comp| &comp.instrs).all(|it| it.sharding().is_none());
        if !is_free {
            continue;
        }
        let json = scratch("floors").join("plan.json");
        let args =
            [&*path.to_string_lossy(), "--passes", "estimate", "--cluster", "a100-1", "-o", "/dev/null"];
        let outcome = phzc(&[&args[..], &["--plan", &json.to_string_lossy()]].concat(), b"");
        assert_eq!(outcome.code, 0, "{}: {}", path.display(), outcome.stderr);
        let text = std::fs::read_to_string(&json).expect("a plan");
        let plan: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let (secs, least) =
            (plan["time_secs"].as_f64().expect("a number"), totals(&module).dot_conv_with_trips / peak);
        assert!(secs >= least, "{}: {secs} s, the products take {least} s", path.display());
    }
}
