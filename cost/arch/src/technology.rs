//! What parts of a chip take in area and in energy: a table that is read from TOML, with its source.

use phzc_ir::{Diagnostic, Result, Span};
use serde::de::DeserializeOwned;

/// Areas and energies of one process.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Technology {
    /// As the file names it.
    pub name: String,
    /// One MAC of a tensor core with its registers.
    pub tensor_pe_um2: f64,
    /// One lane of a vector core with its registers.
    pub vector_pe_um2: f64,
    /// One multiply-accumulate.
    pub mac_pj: f64,
    /// Registers of a tensor core.
    pub tensor_register: Access,
    /// Registers of a vector core.
    pub vector_register: Access,
    /// Memory off the chip.
    pub hbm: Access,
    /// Buffers of a core, by size.
    pub core_buffers: Vec<Sram>,
    /// Buffers that all cores share, by size.
    pub global_buffers: Vec<Sram>,
}

/// Energy of one word in or out.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Out of it.
    pub read_pj: f64,
    /// Into it.
    pub write_pj: f64,
}

/// A buffer of one size.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sram {
    /// What it holds.
    pub bytes: u64,
    /// Its area.
    pub um2: f64,
    /// One word out of it.
    pub read_pj: f64,
    /// One word into it.
    pub write_pj: f64,
}

impl Sram {
    /// Energy of one word in or out.
    pub fn access(&self) -> Access {
        Access { read_pj: self.read_pj, write_pj: self.write_pj }
    }
}

impl Technology {
    /// The process that Phaze assumes: 22 nm, by Accelergy and CACTI (`reference/phaze.md`, section 1).
    ///
    /// # Panics
    /// Never: a test reads the file.
    pub fn cacti_22nm() -> Technology {
        Technology::read(include_str!("../technology/cacti-22nm.toml"))
            .expect("the file is part of the crate")
    }

    /// Reads a table.
    ///
    /// # Errors
    /// For broken TOML, unknown or missing keys, with their place.
    pub fn read(text: &str) -> Result<Technology> {
        from_toml(text)
    }

    /// The buffer of a core with this many bytes.
    ///
    /// # Errors
    /// For sizes that the table lacks.
    pub fn core_buffer(&self, bytes: u64) -> Result<&Sram> {
        find(&self.core_buffers, bytes, "core", &self.name)
    }

    /// The shared buffer with this many bytes.
    ///
    /// # Errors
    /// For sizes that the table lacks.
    pub fn global_buffer(&self, bytes: u64) -> Result<&Sram> {
        find(&self.global_buffers, bytes, "global", &self.name)
    }
}

fn find<'a>(table: &'a [Sram], bytes: u64, kind: &str, technology: &str) -> Result<&'a Sram> {
    let sizes = || table.iter().map(|sram| sram.bytes.to_string()).collect::<Vec<_>>().join(", ");
    table.iter().find(|sram| sram.bytes == bytes).ok_or_else(|| {
        Diagnostic::error(format!("`{technology}` has no {kind} buffer of {bytes} bytes"))
            .help(format!("it has {}", sizes()))
    })
}

/// Reads TOML; what is wrong is a diagnostic that points into `text`.
pub(crate) fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        let plain = Diagnostic::error(error.message().trim_end_matches('.'));
        match error.span() {
            Some(range) => plain.at(Span::new(range.start, range.end)),
            None => plain,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::reference;

    #[test]
    fn energies_are_those_that_accelergy_gave() {
        let Some(rows) = reference("accelergy_tables.json") else { return };
        let technology = Technology::cacti_22nm();
        for row in rows.as_array().expect("a list") {
            let number = |part: &str, key: &str| row[part][key].as_f64().expect("a number");
            let core = technology.core_buffer(row["l2_bytes"].as_u64().expect("bytes")).expect("known");
            let mib = row["glb_mb"].as_u64().expect("MiB");
            let global = technology.global_buffer(mib << 20).expect("known");
            let ours = [core.read_pj, core.write_pj, core.um2, global.read_pj, global.write_pj, global.um2];
            let theirs = [
                number("energy_pj", "tc_l2_read"),
                number("energy_pj", "tc_l2_write"),
                number("area_um2", "L2_Buffer"),
                number("energy_pj", "tc_glb_read"),
                number("energy_pj", "tc_glb_write"),
                number("area_um2", "GLB_Buffer"),
            ];
            assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn a_buffer_of_another_size_is_an_error_that_lists_the_sizes() {
        let error = Technology::cacti_22nm().core_buffer(3).expect_err("no such buffer");
        assert_eq!(error.message, "`cacti-22nm` has no core buffer of 3 bytes");
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        let text = include_str!("../technology/cacti-22nm.toml").replace("mac_pj", "mac_pJ");
        assert!(Technology::read(&text).is_err());
    }
}
