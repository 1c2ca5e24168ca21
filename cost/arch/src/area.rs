//! Area and peak power of an accelerator.

use crate::technology::Technology;
use crate::template::{Cores, Template};
use phzc_ir::Result;

/// Area of the chip: MACs and lanes with their registers, the buffers of the cores, the global buffer. HBM
/// takes none.
///
/// `n_t W D a_t + n_v W a_v + n_t A(16 W D) + n_v A(16 W) + A(global)`, Phaze's area model as
/// `reference/phaze.md`, section 1, recovered it.
///
/// # Errors
/// For buffer sizes that the technology lacks.
pub fn area_um2(cores: &Cores, technology: &Technology) -> Result<f64> {
    let [n_tensor, n_vector, width, depth] =
        [cores.n_tensor, cores.n_vector, cores.width, cores.depth].map(|count| count as f64);
    let tensor_um2 = technology.core_buffer(cores.tensor_buffer_bytes())?.um2;
    let vector_um2 = technology.core_buffer(cores.vector_buffer_bytes())?.um2;
    let global_um2 = technology.global_buffer(cores.global_bytes)?.um2;
    let pe_um2 =
        technology.tensor_pe_um2 * n_tensor * width * depth + technology.vector_pe_um2 * n_vector * width;
    Ok(pe_um2 + n_tensor * tensor_um2 + n_vector * vector_um2 + global_um2)
}

/// Power of the chip and its HBM with every unit at work in every cycle; dynamic, for no leakage is known.
///
/// Per cycle: a MAC with one register read per PE, one word into each row and each column of an array from
/// the core's buffer, as many words per core from the global buffer as its longer side has, and what the
/// HBM delivers. The energies are the technology's; the rates are the `native` cost mode's.
///
/// # Errors
/// For buffer sizes that the technology lacks.
pub fn peak_watts(template: &Template, technology: &Technology) -> Result<f64> {
    let cores = &template.cores;
    let core_pj = technology.core_buffer(cores.tensor_buffer_bytes())?.read_pj;
    let vector_pj = technology.core_buffer(cores.vector_buffer_bytes())?.read_pj;
    let global_pj = technology.global_buffer(cores.global_bytes)?.read_pj;
    let pe_pj = cores.macs_per_cycle() as f64 * (technology.mac_pj + technology.tensor_register.read_pj);
    let feed_pj = (cores.n_tensor * (cores.width + cores.depth)) as f64 * core_pj;
    let lanes_pj =
        cores.lanes() as f64 * (technology.mac_pj + technology.vector_register.read_pj + vector_pj);
    let refill_pj = (cores.n_tensor * cores.width.max(cores.depth)) as f64 * global_pj;
    let on_chip_watts = (pe_pj + feed_pj + lanes_pj + refill_pj) * template.clock_hz * 1e-12;
    let words_per_sec = template.hbm_bytes_per_sec / template.word_bytes as f64;
    Ok(on_chip_watts + words_per_sec * technology.hbm.read_pj * 1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::is_close;

    fn area(n_tensor: u64, n_vector: u64, width: u64, depth: u64, global_mib: u64) -> f64 {
        let cores = Cores { n_tensor, n_vector, width, depth, global_bytes: global_mib << 20 };
        area_um2(&cores, &Technology::cacti_22nm()).expect("sizes are known")
    }

    /// The three rows of `reference/phaze.md`, section 1, that Accelergy itself gave.
    #[test]
    fn areas_are_accelergy_s() {
        assert!(is_close(area(1, 1, 8, 8, 2), 3405209.199528, 1e-12));
        assert!(is_close(area(8, 2, 128, 128, 32), 150154576.31216, 1e-12));
        assert!(is_close(area(8, 2, 128, 128, 128), 278826676.31216, 1e-12));
    }

    #[test]
    fn power_grows_with_every_part() {
        let technology = Technology::cacti_22nm();
        let watts = |template: &Template| peak_watts(template, &technology).expect("sizes are known");
        let proxy = Template::preset("tpu-v4-proxy").expect("a preset");
        let with = |cores: Cores| watts(&Template { cores, ..proxy.clone() });
        let base = watts(&proxy);
        assert!((100.0..1000.0).contains(&base), "{base}");
        assert!(with(Cores { n_tensor: 16, ..proxy.cores }) > base);
        assert!(with(Cores { n_vector: 4, ..proxy.cores }) > base);
        assert!(watts(&Template { hbm_bytes_per_sec: 2.4e12, ..proxy.clone() }) > base);
    }
}
