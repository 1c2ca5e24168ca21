//! A cluster with other hardware: its memory, the rates of single links, its nodes.

use super::Cluster;
use crate::measured::Measured;
use phzc_ir::{Diagnostic, Result};
use std::sync::Arc;

impl Cluster {
    /// The same under another name.
    #[must_use]
    pub fn named_as(self, name: String) -> Cluster {
        Cluster { name, ..self }
    }

    /// The same with so many bytes of memory on each device.
    #[must_use]
    pub fn with_hbm_bytes(mut self, hbm_bytes: f64) -> Cluster {
        self.accelerator.hbm_bytes = hbm_bytes;
        self
    }

    /// The same with what was measured of programs on it.
    #[must_use]
    pub fn with_measured(self, measured: Option<Arc<Measured>>) -> Cluster {
        Cluster { measured, ..self }
    }

    /// The position of the level of that name, or of the only one whose name starts so; case does not matter.
    ///
    /// # Errors
    /// When no level is called so, or several are.
    pub fn level_named(&self, name: &str) -> Result<usize> {
        let wanted = name.to_lowercase();
        let names: Vec<String> = self.levels.iter().map(|level| level.name.to_lowercase()).collect();
        if let Some(index) = names.iter().position(|known| *known == wanted) {
            return Ok(index);
        }
        let mut starting = (0..names.len()).filter(|&index| names[index].starts_with(&wanted));
        match (starting.next(), starting.next()) {
            (Some(index), None) if !wanted.is_empty() => Ok(index),
            _ => Err(self.no_level(name)),
        }
    }

    /// The same with the rates of one level so many times as high.
    #[must_use]
    pub fn with_level_rate(mut self, level: usize, factor: f64) -> Cluster {
        let level = &mut self.levels[level];
        level.bytes_per_sec *= factor;
        level.all_reduce_bytes_per_sec = level.all_reduce_bytes_per_sec.map(|rate| rate * factor);
        self
    }

    fn no_level(&self, name: &str) -> Diagnostic {
        let known: Vec<String> = self.levels.iter().map(|level| format!("`{}`", level.name)).collect();
        let error = Diagnostic::error(format!("no one link of `{}` is called `{name}`", self.name));
        error.help(format!("its links are {}", known.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use crate::Cluster;

    #[test]
    fn a_link_is_named_by_what_its_name_starts_with() {
        let cluster = Cluster::named("a100-8x2").expect("a known cluster");
        let names: Vec<&str> = cluster.levels().iter().map(|level| &*level.name).collect();
        assert_eq!(cluster.level_named(&names[0].to_uppercase()), Ok(0));
        assert_eq!(cluster.level_named(&names[1][..4]), Ok(1));
        for wrong in ["", "token ring"] {
            let error = cluster.level_named(wrong).expect_err("no such link");
            assert_eq!(error.message, format!("no one link of `a100-8x2` is called `{wrong}`"));
        }
    }

    #[test]
    fn only_what_is_changed_differs() {
        let before = Cluster::named("h100-8x2").expect("a known cluster");
        let after = before.clone().with_level_rate(1, 2.0).with_hbm_bytes(1e9);
        let rates = |cluster: &Cluster| -> Vec<f64> {
            cluster.levels().iter().map(|level| level.bytes_per_sec).collect()
        };
        assert_eq!(rates(&after), [rates(&before)[0], 2.0 * rates(&before)[1]]);
        assert_eq!(after.accelerator.hbm_bytes, 1e9);
        let again = after.with_level_rate(1, 0.5).with_hbm_bytes(before.accelerator.hbm_bytes);
        assert_eq!(again, before);
    }
}
