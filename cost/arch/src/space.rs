//! The accelerators that a search visits, in Phaze's order, within limits of area and power.

use crate::area::{area_um2, peak_watts};
use crate::technology::Technology;
use crate::template::{Cores, Template};
use phzc_ir::Result;

/// Powers of two from the largest to the smallest, as exponents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exponents {
    /// Of the largest.
    pub most: u32,
    /// Of the smallest.
    pub least: u32,
}

/// A space of accelerators: every combination of powers of two that the limits let through.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// Tensor cores.
    pub n_tensor: Exponents,
    /// Vector cores.
    pub n_vector: Exponents,
    /// Columns of an array.
    pub width: Exponents,
    /// Rows of an array.
    pub depth: Exponents,
    /// Bytes of the global buffer.
    pub global_bytes: Exponents,
    /// No accelerator is larger.
    pub max_um2: f64,
    /// Accelerators below this part of [`Self::max_um2`] are left out, unless they have one tensor core or
    /// one vector core.
    pub min_fraction: f64,
    /// No accelerator takes more at its peak.
    pub max_watts: f64,
    /// HBM, clock and word of every accelerator.
    pub base: Template,
}

/// An accelerator of a space.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Point {
    /// The accelerator.
    pub cores: Cores,
    /// Its area.
    pub um2: f64,
    /// Its power at its peak.
    pub watts: f64,
}

impl Space {
    /// Phaze's space: up to 4096 cores of either kind, arrays of 2 to 256 on a side, 2 to 128 MiB, within the
    /// area of the TPU v4 proxy and above 0.3 of it (`reference/phaze.md`, section 1).
    ///
    /// # Errors
    /// For a technology that lacks the proxy's buffers.
    pub fn phaze(technology: &Technology) -> Result<Space> {
        let base = Template::preset("tpu-v4-proxy")?;
        let counts = Exponents { most: 12, least: 0 };
        let sides = Exponents { most: 8, least: 1 };
        Ok(Space {
            n_tensor: counts,
            n_vector: counts,
            width: sides,
            depth: sides,
            global_bytes: Exponents { most: 27, least: 21 },
            max_um2: area_um2(&base.cores, technology)?,
            min_fraction: 0.3,
            max_watts: f64::INFINITY,
            base,
        })
    }

    /// The accelerators: tensor cores fall slowest, then vector cores, width, depth, and the buffer fastest.
    ///
    /// # Errors
    /// For buffer sizes that the technology lacks.
    pub fn points(&self, technology: &Technology) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        for cores in self.combinations() {
            let um2 = area_um2(&cores, technology)?;
            if !self.fits(&cores, um2) {
                continue;
            }
            let watts = peak_watts(&self.template(cores), technology)?;
            if watts <= self.max_watts {
                points.push(Point { cores, um2, watts });
            }
        }
        Ok(points)
    }

    /// The description of one of its accelerators.
    pub fn template(&self, cores: Cores) -> Template {
        let Cores { n_tensor, n_vector, width, depth, global_bytes } = cores;
        let name = format!("tc{n_tensor}x{width}x{depth}-vc{n_vector}-glb{}", global_bytes >> 20);
        Template { name, cores, ..self.base.clone() }
    }

    fn fits(&self, cores: &Cores, um2: f64) -> bool {
        let is_single = cores.n_tensor == 1 || cores.n_vector == 1;
        let least_um2 = if is_single { 0.0 } else { self.min_fraction * self.max_um2 };
        (least_um2..=self.max_um2).contains(&um2)
    }

    fn combinations(&self) -> impl Iterator<Item = Cores> + '_ {
        let powers = |range: Exponents| (range.least..=range.most).rev().map(|exponent| 1_u64 << exponent);
        let counts =
            powers(self.n_tensor).flat_map(move |tensor| powers(self.n_vector).map(move |it| (tensor, it)));
        counts.flat_map(move |(n_tensor, n_vector)| {
            self.arrays().map(move |(width, depth, global_bytes)| Cores {
                n_tensor,
                n_vector,
                width,
                depth,
                global_bytes,
            })
        })
    }

    fn arrays(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let powers = |range: Exponents| (range.least..=range.most).rev().map(|exponent| 1_u64 << exponent);
        let sides = powers(self.width).flat_map(move |width| powers(self.depth).map(move |it| (width, it)));
        sides.flat_map(move |(width, depth)| {
            powers(self.global_bytes).map(move |global_bytes| (width, depth, global_bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::is_close;
    use crate::testing::sha256;

    fn phaze() -> Vec<Point> {
        let technology = Technology::cacti_22nm();
        Space::phaze(&technology).and_then(|space| space.points(&technology)).expect("sizes are known")
    }

    /// Count and sum are those of `reference/phaze.md`, section 1.
    #[test]
    fn phaze_s_space_has_as_many_accelerators_and_as_much_area() {
        let points = phaze();
        assert_eq!(points.len(), 29_360);
        let sum_um2: f64 = points.iter().map(|point| point.um2).sum();
        assert!(is_close(sum_um2, 3938358656612.7314, 1e-12), "{sum_um2}");
    }

    /// The checksum of `reference/phaze.md`, section 1, which depends on the order.
    #[test]
    fn phaze_s_space_has_phaze_s_order() {
        let line = |Point { cores, .. }: &Point| {
            let Cores { n_tensor, n_vector, width, depth, global_bytes } = cores;
            format!("{n_tensor},{n_vector},{width},{depth},{width},{global_bytes}\n")
        };
        let text: String = phaze().iter().map(line).collect();
        let expected = "2bc7b0ebb47c6c4e7af9ca260cc20a3a81c398ad1f4a437184ce1dc13b2c8f8e";
        assert_eq!(sha256(text.as_bytes()), expected);
    }

    #[test]
    fn a_limit_of_power_leaves_accelerators_out() {
        let technology = Technology::cacti_22nm();
        let space = Space { max_watts: 400.0, ..Space::phaze(&technology).expect("sizes are known") };
        let points = space.points(&technology).expect("sizes are known");
        assert!(!points.is_empty() && points.iter().all(|point| point.watts <= 400.0));
    }
}
