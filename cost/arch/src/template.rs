//! Phaze's template of an accelerator: tensor cores, vector cores, a global buffer, HBM and a clock.

use crate::technology::from_toml;
use phzc_ir::{Diagnostic, Result};

/// Cores, and PEs on a side, at most.
const MAX_COUNT: u64 = 1 << 16;

/// Presets by name, with their TOML.
const PRESETS: [(&str, &str); 2] = [
    ("tpu-v4-proxy", include_str!("../presets/tpu-v4-proxy.toml")),
    ("wide-4x256", include_str!("../presets/wide-4x256.toml")),
];

/// What a search over accelerators varies; its order is that of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Cores {
    /// Tensor cores.
    pub n_tensor: u64,
    /// Vector cores.
    pub n_vector: u64,
    /// Columns of a tensor core's array, and lanes of a vector core.
    pub width: u64,
    /// Rows of a tensor core's array.
    pub depth: u64,
    /// The buffer that all cores share.
    pub global_bytes: u64,
}

/// An accelerator: one instance of the template.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(try_from = "Text")]
pub struct Template {
    /// As its file names it.
    pub name: String,
    /// Cores and buffers.
    pub cores: Cores,
    /// What the HBM holds.
    pub hbm_bytes: u64,
    /// Of the HBM, one way.
    pub hbm_bytes_per_sec: f64,
    /// Of every core.
    pub clock_hz: f64,
    /// One element.
    pub word_bytes: u64,
}

/// A preset's keys.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: String,
    n_tensor: u64,
    n_vector: u64,
    width: u64,
    depth: u64,
    global_bytes: u64,
    hbm_bytes: u64,
    hbm_bytes_per_sec: f64,
    clock_hz: f64,
    word_bytes: u64,
}

impl Cores {
    /// Bytes of the buffer of one tensor core: `max(1024, 16 W D)`.
    ///
    /// Source: `reference/phaze.md`, section 1.
    pub fn tensor_buffer_bytes(&self) -> u64 {
        self.width.saturating_mul(self.depth).saturating_mul(16).max(1024)
    }

    /// Bytes of the buffer of one vector core, as a tensor core of depth one has.
    pub fn vector_buffer_bytes(&self) -> u64 {
        self.width.saturating_mul(16).max(1024)
    }

    /// The tensor cores as a grid, `[longer, shorter]`; the shorter side is `2^⌊log2(n) / 2⌋`.
    ///
    /// Source: `reference/phaze.md`, section 1.
    pub fn grid(&self) -> [u64; 2] {
        let shorter = 1 << (self.n_tensor.max(1).ilog2() / 2);
        let longer = self.n_tensor / shorter;
        [longer.max(shorter), longer.min(shorter)]
    }

    /// Multiply-accumulates per cycle of all tensor cores.
    pub fn macs_per_cycle(&self) -> u64 {
        self.n_tensor.saturating_mul(self.width).saturating_mul(self.depth)
    }

    /// Lanes of all vector cores.
    pub fn lanes(&self) -> u64 {
        self.n_vector.saturating_mul(self.width)
    }
}

impl Text {
    fn template(self) -> Result<Template> {
        let Text { n_tensor, n_vector, width, depth, global_bytes, .. } = self;
        let Text { name, hbm_bytes, hbm_bytes_per_sec, clock_hz, word_bytes, .. } = self;
        let cores = Cores { n_tensor, n_vector, width, depth, global_bytes };
        let template = Template { name, cores, hbm_bytes, hbm_bytes_per_sec, clock_hz, word_bytes };
        template.check()?;
        Ok(template)
    }
}

impl TryFrom<Text> for Template {
    type Error = String;

    fn try_from(text: Text) -> std::result::Result<Template, String> {
        text.template().map_err(|error| error.message)
    }
}

impl Template {
    /// Reads a description.
    ///
    /// # Errors
    /// For broken TOML, unknown or missing keys, and numbers that are not above zero.
    pub fn read(text: &str) -> Result<Template> {
        from_toml::<Text>(text)?.template()
    }

    /// A preset by its name.
    ///
    /// # Errors
    /// For other names; the message lists those that there are.
    pub fn preset(name: &str) -> Result<Template> {
        let found = PRESETS.iter().find(|(known, _)| *known == name);
        let Some((_, text)) = found else {
            let names = PRESETS.map(|(name, _)| name).join(", ");
            return Err(Diagnostic::error(format!("no accelerator template `{name}`; there are {names}")));
        };
        Template::read(text)
    }

    /// The description that [`Self::read`] reads.
    pub fn to_toml(&self) -> String {
        let Cores { n_tensor, n_vector, width, depth, global_bytes } = self.cores;
        let Template { name, hbm_bytes, hbm_bytes_per_sec, clock_hz, word_bytes, .. } = self;
        let cores =
            format!("n_tensor = {n_tensor}\nn_vector = {n_vector}\nwidth = {width}\ndepth = {depth}\n");
        let memory = format!("global_bytes = {global_bytes}\nhbm_bytes = {hbm_bytes}\n");
        let rates = format!("hbm_bytes_per_sec = {hbm_bytes_per_sec:e}\nclock_hz = {clock_hz:e}\n");
        format!("name = {name:?}\n{cores}{memory}{rates}word_bytes = {word_bytes}\n")
    }

    /// Floating-point operations per second of the tensor cores, at best.
    pub fn peak_flops_per_sec(&self) -> f64 {
        2.0 * self.cores.macs_per_cycle() as f64 * self.clock_hz
    }

    fn check(&self) -> Result<()> {
        let Cores { n_tensor, n_vector, width, depth, global_bytes } = self.cores;
        let counts = [
            ("n_tensor", n_tensor),
            ("n_vector", n_vector),
            ("width", width),
            ("depth", depth),
            ("global_bytes", global_bytes),
            ("hbm_bytes", self.hbm_bytes),
            ("word_bytes", self.word_bytes),
        ];
        let rates = [("hbm_bytes_per_sec", self.hbm_bytes_per_sec), ("clock_hz", self.clock_hz)];
        let none = counts.iter().find(|(_, count)| *count == 0).map(|(key, _)| key);
        let senseless = rates.iter().find(|(_, rate)| !(rate.is_finite() && *rate > 0.0)).map(|(key, _)| key);
        if let Some(key) = none.or(senseless) {
            return Err(Diagnostic::error(format!("`{key}` has to be above zero")));
        }
        match counts[..4].iter().find(|(_, count)| *count > MAX_COUNT) {
            Some((key, _)) => Err(Diagnostic::error(format!("`{key}` has to be at most {MAX_COUNT}"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_reads_and_is_named_as_its_file() {
        for (name, _) in PRESETS {
            assert_eq!(Template::preset(name).expect("a preset").name, name);
        }
    }

    #[test]
    fn a_description_reads_back_as_it_was() {
        let proxy = Template::preset("tpu-v4-proxy").expect("a preset");
        assert_eq!(Template::read(&proxy.to_toml()), Ok(proxy));
    }

    #[test]
    fn the_tpu_v4_proxy_has_the_peak_of_a_tpu_v4() {
        let peak = Template::preset("tpu-v4-proxy").expect("a preset").peak_flops_per_sec();
        assert!((peak - 275.25e12).abs() < 1e10, "{peak}");
    }

    #[test]
    fn an_unknown_preset_is_an_error_that_lists_them() {
        let error = Template::preset("tpu").expect_err("no such preset");
        assert_eq!(error.message, "no accelerator template `tpu`; there are tpu-v4-proxy, wide-4x256");
    }

    #[test]
    fn a_template_without_a_clock_is_an_error() {
        let text = PRESETS[0].1.replace("1.05e9", "0.0");
        assert_eq!(Template::read(&text).expect_err("no clock").message, "`clock_hz` has to be above zero");
    }

    #[test]
    fn more_cores_than_can_be_counted_are_an_error() {
        let text = PRESETS[0].1.replace("n_tensor = 8", "n_tensor = 8_000_000");
        let error = Template::read(&text).expect_err("too many");
        assert_eq!(error.message, "`n_tensor` has to be at most 65536");
    }

    #[test]
    fn cores_form_a_grid_that_is_nearly_square() {
        let grid = |n_tensor| Cores { n_tensor, n_vector: 1, width: 8, depth: 8, global_bytes: 1 }.grid();
        assert_eq!([grid(1), grid(2), grid(8), grid(16)], [[1, 1], [2, 1], [4, 2], [4, 4]]);
    }
}
