//! The note that a value is a sum still to be done, one summand per device along some mesh axes.
//!
//! ```text
//! g = f32[8,8] dot(x, dy), …, sharding={replicated}, frontend_attributes={phzc.partial="x"}
//! ```
//!
//! A tuple's note lists its leaves: `,x,xy`. The sharding is that of the sum, so that the text means the same
//! to XLA, which reduces where the summands are made.

use crate::pricing::{AxisMask, axes_of};
use phzc_ir::layout::AXIS_NAMES;
use phzc_ir::{Instr, MAX_AXES, notes};

/// Notes the axes over which each leaf of an instruction's value is partial.
pub fn set(instr: &mut Instr, leaves: &[AxisMask]) {
    if leaves.iter().all(|&axes| axes == 0) {
        instr.remove_note(notes::PARTIAL);
        return;
    }
    let leaves: Vec<String> = leaves.iter().map(|&axes| names(axes)).collect();
    instr.set_note(notes::PARTIAL, &leaves.join(","));
}

/// Whether an instruction has the note.
pub fn is_noted(instr: &Instr) -> bool {
    instr.note(notes::PARTIAL).is_some()
}

/// The axes over which each of `n_leaves` leaves is partial.
///
/// # Errors
/// The part of the note that is no list of axes, or the whole note if it has not that many parts.
pub fn read(instr: &Instr, n_leaves: usize) -> Result<Vec<AxisMask>, &str> {
    let Some(text) = instr.note(notes::PARTIAL) else { return Ok(vec![0; n_leaves]) };
    let leaves: Vec<AxisMask> =
        text.split(',').map(|part| parse(part).ok_or(part)).collect::<Result<_, _>>()?;
    if leaves.len() == n_leaves { Ok(leaves) } else { Err(text) }
}

/// The names of axes, one after the other.
pub fn names(axes: AxisMask) -> String {
    axes_of(axes).map(|axis| AXIS_NAMES[axis]).collect()
}

fn parse(text: &str) -> Option<AxisMask> {
    text.chars().try_fold(0, |axes, name| {
        let axis = (0..MAX_AXES).find(|&axis| AXIS_NAMES[axis].chars().eq([name]))?;
        Some(axes | 1 << axis)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instruction with this note.
    fn instr(note: &str) -> Instr {
        let text = format!("ENTRY e {{ ROOT a = f32[4] parameter(0), frontend_attributes={{{note}}} }}");
        phzc_ir::parse(&text).expect("legal").entry().root().clone()
    }

    #[test]
    fn what_is_set_is_read_leaf_by_leaf() {
        let mut own = instr("a=\"b\"");
        assert!(!is_noted(&own));
        assert_eq!(read(&own, 2), Ok(vec![0, 0]));
        set(&mut own, &[0, 0b1, 0b1010]);
        assert_eq!(own.note("phzc.partial"), Some(",x,yw"));
        assert!(is_noted(&own));
        assert_eq!(read(&own, 3), Ok(vec![0, 0b1, 0b1010]));
        set(&mut own, &[0, 0, 0]);
        assert!(!is_noted(&own));
    }

    #[test]
    fn what_is_no_list_of_axes_per_leaf_is_named() {
        let own = instr("phzc.partial=\"x,xv\"");
        assert_eq!(read(&own, 2), Err("xv"));
        let own = instr("phzc.partial=\"x,y\"");
        assert_eq!(read(&own, 1), Err("x,y"));
        assert_eq!(read(&own, 2), Ok(vec![1, 2]));
        // An axis that is named twice is named.
        assert_eq!(read(&instr("phzc.partial=\"xyx\""), 1), Ok(vec![0b11]));
    }
}
