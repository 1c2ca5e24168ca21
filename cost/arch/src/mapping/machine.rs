//! What a mapping runs on: arrays, a grid of cores, and per level its words, words per cycle and energy.

use crate::technology::{Access, Technology};
use crate::template::Template;
use phzc_ir::Result;

/// Energy that Phaze's mapper takes for a multiply-accumulate (`reference/phaze.md`, section 1).
const PHAZE_MAC_PJ: f64 = 2.2;
/// Words of the registers of one PE of a tensor core (`reference/phaze.md`, section 2a).
const REGISTER_WORDS: u64 = 32;
/// Words per cycle between registers, core buffer, global buffer and HBM in Phaze's v1.0.
const PHAZE_WORDS_PER_CYCLE: [f64; 3] = [64.0, 256.0, 128.0];
/// Bytes per cycle between the global buffer and all cores (`reference/phaze.md`, section 1).
const GLOBAL_BYTES_PER_CYCLE: f64 = 4096.0;

/// Which of two models prices operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Phaze's, term by term.
    Phaze,
    /// Phaze's with its known errors corrected: `reference/phaze.md`, section 9.
    Native,
}

/// An accelerator as a mapping sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// PEs of a core, by sides.
    pub array: [u64; 2],
    /// Tensor cores, by sides.
    pub grid: [u64; 2],
    /// Words that the registers of a PE hold, all operands together.
    pub register_words: u64,
    /// Words that the buffer of a core holds.
    pub core_words: u64,
    /// Whether that many are there for each operand, as Phaze has it, or for all together.
    pub is_per_operand: bool,
    /// Words that the global buffer holds, all operands together.
    pub global_words: u64,
    /// Words per cycle and direction into registers, core buffers and the global buffer from the next level.
    pub words_per_cycle: [f64; 3],
    /// Whether each core has its own feed of registers, or all share one, as Phaze has it.
    pub is_fed_per_core: bool,
    /// A word of registers, core buffer, global buffer, HBM.
    pub access: [Access; 4],
    /// A multiply-accumulate.
    pub mac_pj: f64,
}

impl Machine {
    /// The machine that a template is in a mode.
    ///
    /// `Native` corrects: buffers hold words, not bytes, half of them while the other half fills; a core's
    /// buffer is shared by its operands; every core has its own feed, one word per row and column of its
    /// array; HBM has the template's bandwidth; writes have their own energy.
    ///
    /// # Errors
    /// For buffer sizes that the technology lacks.
    pub fn new(template: &Template, technology: &Technology, mode: Mode) -> Result<Machine> {
        let cores = &template.cores;
        let buffers = [
            technology.core_buffer(cores.tensor_buffer_bytes())?,
            technology.global_buffer(cores.global_bytes)?,
        ];
        let [core, global] = buffers.map(|buffer| buffer.access());
        let access = [technology.tensor_register, core, global, technology.hbm];
        let phaze = Machine {
            array: [cores.width, cores.depth],
            grid: cores.grid(),
            register_words: REGISTER_WORDS,
            core_words: cores.tensor_buffer_bytes(),
            is_per_operand: true,
            global_words: cores.global_bytes,
            words_per_cycle: PHAZE_WORDS_PER_CYCLE,
            is_fed_per_core: false,
            access: access.map(|access| Access { write_pj: access.read_pj, ..access }),
            mac_pj: PHAZE_MAC_PJ,
        };
        Ok(if mode == Mode::Phaze { phaze } else { native(phaze, template, access, technology.mac_pj) })
    }

    /// PEs of all cores.
    pub fn macs_per_cycle(&self) -> f64 {
        self.array.iter().chain(&self.grid).product::<u64>() as f64
    }
}

fn native(phaze: Machine, template: &Template, access: [Access; 4], mac_pj: f64) -> Machine {
    let word_bytes = template.word_bytes as f64;
    let hbm_words_per_cycle = template.hbm_bytes_per_sec / template.clock_hz / word_bytes;
    let feed = (template.cores.width + template.cores.depth) as f64;
    Machine {
        core_words: phaze.core_words / template.word_bytes / 2,
        is_per_operand: false,
        global_words: phaze.global_words / template.word_bytes / 2,
        words_per_cycle: [feed, GLOBAL_BYTES_PER_CYCLE / word_bytes, hbm_words_per_cycle],
        is_fed_per_core: true,
        access,
        mac_pj,
        ..phaze
    }
}
