//! Shardings: HLO's text, and Shardy's named axes as HLO's devices.

use super::ast::{Attr, Op};
use super::parse::File;
use phzc_ir::shardy::{self, Meant, NamedMesh};
use phzc_ir::{Diagnostic, Result, Sharding, Span};

/// `"{devices=[2,1]<=[2]}"`.
pub(super) fn from_text(text: &str, span: Span) -> Result<Sharding> {
    phzc_ir::text::sharding(text).map_err(|error| {
        let note = format!("in the sharding `{}`", phzc_ir::text::cursor::clip(text));
        Diagnostic::error(error.message).at(span).note(None, note)
    })
}

/// The sharding that an argument, result or operation notes, and Shardy's text where HLO cannot say it.
pub(super) fn noted(
    file: &File,
    notes: &Attr,
    rank: usize,
    span: Span,
) -> Result<(Option<Sharding>, Option<String>)> {
    if let Some(Attr::Str(text)) = notes.field("mhlo.sharding") {
        return from_text(text, span).map(|sharding| (Some(sharding), None));
    }
    match notes.field("sdy.sharding") {
        Some(Attr::Text(text)) => match from_shardy(file, text, rank) {
            // An argument of which nothing is said may lie as it is read.
            Ok(meant) => Ok((meant.filter(|it| !it.is_open(rank)).map(|it| it.sharding), None)),
            Err(_) => Ok((None, Some(format!("#sdy.sharding<{}>", text.replace('"', "\\\""))))),
        },
        _ => Ok((None, None)),
    }
}

/// `@mesh, [{}, {"model"}]` on a mesh of the file.
///
/// # Errors
/// As [`shardy::read`].
pub(super) fn from_shardy(
    file: &File,
    text: &str,
    rank: usize,
) -> std::result::Result<Option<Meant>, String> {
    shardy::read(text, rank, |name| mesh(file, name))
}

/// The mesh of this name.
fn mesh(file: &File, name: &str) -> Option<NamedMesh> {
    let ops: &[Op] = &file.module.regions.first()?.ops;
    let mesh = ops.iter().find(|op| op.name == "sdy.mesh" && op.symbol == Some(name))?;
    let Some(Attr::Text(text)) = mesh.attr(&["mesh"]) else { return None };
    NamedMesh::parse(text)
}

#[cfg(test)]
mod tests {
    /// The sharding of a parameter of a program with this mesh, or the note of what HLO cannot say.
    fn read(mesh: &str, sharding: &str) -> String {
        let text = format!(
            "module @m {{ sdy.mesh @m = <{mesh}>
              func.func public @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@m, {sharding}>}})
                -> tensor<8x8xf32> {{
                return %a : tensor<8x8xf32> }} }}"
        );
        let module = crate::stablehlo::read(&text).expect("legal");
        let instr = &module.entry().instrs[0];
        let kept = instr.note("xla.sdy.sharding").map(|_| "kept".to_owned());
        instr.sharding().map(ToString::to_string).or(kept).unwrap_or_default()
    }

    #[test]
    fn axes_and_their_parts_are_devices() {
        let on = |sharding: &str| read("[\"x\"=2, \"y\"=4]", sharding);
        assert_eq!(on("[{\"x\"}, {\"y\"}]"), "{devices=[2,4]<=[8]}");
        assert_eq!(on("[{\"y\"}p1, {}]"), "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
        assert_eq!(on("[{\"y\":(1)2}, {}]"), "{devices=[2,1,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}");
        assert_eq!(
            on("[{\"y\":(2)2}, {\"y\":(1)2}]"),
            "{devices=[2,2,2]<=[2,2,2]T(2,1,0) last_tile_dim_replicate}"
        );
        assert_eq!([on("[{\"y\":(3)2}, {}]"), on("[{\"z\"}, {}]")], ["kept", "kept"]);
        assert_eq!([on("[{}, {}]"), on("[{?}, {?}]"), on("[{?}, {}]")], ["{replicated}", "", "{replicated}"]);
    }

    #[test]
    fn a_mesh_may_have_no_devices_or_an_order_of_its_own() {
        assert_eq!(read("[]", "[{}, {}]"), "");
        assert_eq!(read("[], device_ids=[0]", "[{}, {}]"), "");
        let order = "[\"x\"=2, \"y\"=2], device_ids=[0, 2, 1, 3]";
        assert_eq!(read(order, "[{\"x\"}, {\"y\"}]"), "{devices=[2,2]0,2,1,3}");
    }
}
