//! The derivative of a conditional: the branch again and then backwards, in a conditional of its own.

use super::scope::Cx;
use phzc_ir::Result;

/// Not yet.
pub(super) fn conditional(cx: &mut Cx) -> Result<()> {
    Err(cx.refuse("its branches are not differentiated"))
}
