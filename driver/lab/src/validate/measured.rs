//! What was measured of a training run, in the form that its source has.

use super::csv::Record;
use phzc_cost::Accelerator;
use phzc_cost::training::Job;
use phzc_ir::Result;

/// What was measured, in the form that the source has.
pub(crate) struct Measured {
    iter_time_s: Option<f64>,
    samples_per_s: Option<f64>,
    tokens_per_s: Option<f64>,
    tokens_per_s_per_gpu: Option<f64>,
    hardware_tflops: Option<f64>,
    model_tflops: Option<f64>,
    model_utilization: Option<f64>,
}

impl Measured {
    /// Reads what the row has.
    ///
    /// # Errors
    /// When a cell holds no number.
    pub fn read(row: Record) -> Result<Measured> {
        let is_of = |kind: &str| row.text("tflops_kind").starts_with(kind);
        let tflops = row.number("tflops_per_gpu")?;
        Ok(Measured {
            iter_time_s: row.number("iter_time_s")?,
            samples_per_s: row.number("samples_per_s")?,
            tokens_per_s: row.number("tokens_per_s")?,
            tokens_per_s_per_gpu: row.number("tokens_per_s_per_gpu")?,
            hardware_tflops: tflops.filter(|_| is_of("hardware")),
            model_tflops: tflops.filter(|_| is_of("model")),
            model_utilization: row.number("mfu_pct")?.map(|percent| percent / 100.0),
        })
    }

    /// Seconds of one step of that job on that device. Of the model's operations only where nothing else is
    /// stated: sources count them in their own ways.
    pub fn step_secs(&self, job: &Job, device: &Accelerator) -> Option<f64> {
        let sequences = job.layout.n_sequences() as f64;
        let tokens = sequences * job.model.seq;
        let n_devices = job.layout.n_devices() as f64;
        let per_device = self.tokens_per_s_per_gpu.map(|rate| rate * n_devices);
        let by_tflops = self.hardware_tflops.map(|tflops| published_flops(job) / (tflops * 1e12 * n_devices));
        let by_samples = self.samples_per_s.map(|rate| sequences / rate);
        self.iter_time_s
            .or(by_samples)
            .or(self.tokens_per_s.or(per_device).map(|rate| tokens / rate))
            .or(by_tflops)
            .or(self.model_secs(job, device))
    }
}

impl Measured {
    /// By the model's TFLOP/s, or their part of the peak of the type of its products.
    fn model_secs(&self, job: &Job, device: &Accelerator) -> Option<f64> {
        let of_peak = |part: f64| part * device.peak_flops_per_sec.of(job.stack.product_dtype);
        let rate = self.model_tflops.map(|tflops| 1e12 * tflops).or(self.model_utilization.map(of_peak))?;
        Some(job.model_flops() / (rate * job.layout.n_devices() as f64))
    }
}

/// Operations as Narayanan et al. (SC 2021, eq. 3) count them, full recomputation included.
fn published_flops(job: &Job) -> f64 {
    let (model, tokens) = (&job.model, job.layout.n_sequences() as f64 * job.model.seq);
    let (layers, hidden) = (model.layers as f64, model.hidden);
    let others = 1.0 + model.seq / (6.0 * hidden) + model.vocab / (16.0 * layers * hidden);
    96.0 * tokens * layers * hidden * hidden * others
}
