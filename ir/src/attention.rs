//! The note of an instruction that is part of a fused attention: `3`, or of a product `3:qkd:causal`.
//!
//! ```text
//! phzc.attention="3"                      what a kernel keeps in registers: scale, mask, softmax
//! phzc.attention="3:qkd:causal"           a product: rows, columns and sums run over q, k and d
//! phzc.attention="3:kdq:gradient"         the same in the backward kernel
//! ```
//!
//! `q` are queries, `k` keys, `d` elements of a head; attentions of equal number are one kernel in the
//! forward part and one in the backward part.

use crate::module::Instr;
use crate::notes;
use std::fmt;

/// What a kind of loop of a product runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionLoop {
    /// Queries of a sequence, and the heads that share keys.
    Queries,
    /// Keys of a sequence.
    Keys,
    /// Elements of a head.
    Head,
}

/// A product of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionProduct {
    /// What its rows, columns and sums run over: each something else.
    pub loops: [AttentionLoop; 3],
    /// Whether it is one of the backward kernel's.
    pub is_gradient: bool,
    /// Whether a query sees the keys before it only.
    pub is_causal: bool,
}

/// What the note says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionNote {
    /// The attention's number in the program.
    pub number: u32,
    /// What the instruction is if it is a product.
    pub product: Option<AttentionProduct>,
}

impl AttentionLoop {
    fn letter(self) -> char {
        match self {
            AttentionLoop::Queries => 'q',
            AttentionLoop::Keys => 'k',
            AttentionLoop::Head => 'd',
        }
    }
}

/// The loops that three letters name.
fn loops(text: &str) -> Option<[AttentionLoop; 3]> {
    use AttentionLoop::{Head, Keys, Queries};
    let orders = [
        [Queries, Keys, Head],
        [Queries, Head, Keys],
        [Keys, Queries, Head],
        [Keys, Head, Queries],
        [Head, Queries, Keys],
        [Head, Keys, Queries],
    ];
    orders.into_iter().find(|order| order.iter().map(|it| it.letter()).eq(text.chars()))
}

impl AttentionNote {
    /// The note that a text is; none if it is not one.
    pub fn parse(text: &str) -> Option<AttentionNote> {
        let mut fields = text.split(':');
        let number = fields.next()?.parse().ok()?;
        let Some(order) = fields.next() else { return Some(AttentionNote { number, product: None }) };
        let mut product = AttentionProduct { loops: loops(order)?, is_gradient: false, is_causal: false };
        for field in fields {
            match field {
                "gradient" => product.is_gradient = true,
                "causal" => product.is_causal = true,
                _ => return None,
            }
        }
        Some(AttentionNote { number, product: Some(product) })
    }

    /// The note of an instruction, if it has one that can be read.
    pub fn of(instr: &Instr) -> Option<AttentionNote> {
        AttentionNote::parse(instr.note(notes::ATTENTION)?)
    }
}

impl fmt::Display for AttentionNote {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.number)?;
        let Some(product) = self.product else { return Ok(()) };
        f.write_str(":")?;
        product.loops.iter().try_for_each(|it| write!(f, "{}", it.letter()))?;
        f.write_str(if product.is_gradient { ":gradient" } else { "" })?;
        f.write_str(if product.is_causal { ":causal" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_is_written() {
        for text in ["0", "12:qkd", "3:dqk:causal", "3:kdq:gradient", "4:qdk:gradient:causal"] {
            let note = AttentionNote::parse(text).expect("a note");
            assert_eq!(note.to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_no_notes() {
        for text in ["", "x", "-1", "1:", "1:qk", "1:qkk", "1:qkd:backward", "1:qkdq"] {
            assert_eq!(AttentionNote::parse(text), None, "{text}");
        }
    }
}
