//! Shardings.

use super::groups::{joined, transposed};
use super::message::OpSharding;
use phzc_ir::{Diagnostic, Result, Sharding};

/// The sharding of a value.
pub(super) fn sharding(proto: &OpSharding) -> Result<Sharding> {
    let text = text(proto)?;
    phzc_ir::text::sharding(&text).map_err(|error| {
        Diagnostic::error(format!("the sharding `{text}` cannot be read: {}", error.message))
    })
}

/// The sharding as HLO's text has it; types by their numbers in `OpSharding.Type`.
fn text(proto: &OpSharding) -> Result<String> {
    if proto.named_sharding.is_some() {
        let error = Diagnostic::error("shardings over named axes are not read from protobufs");
        return Err(error.help("XLA's text of the module is read"));
    }
    let suffix = match (proto.is_shard_group, proto.shard_group_type) {
        (false, _) => String::new(),
        (true, 0) => format!(" shard_as {}", proto.shard_group_id),
        (true, _) => format!(" shard_like {}", proto.shard_group_id),
    };
    let inside = match proto.r#type {
        1 => format!("maximal device={}", proto.tile_assignment_devices.first().copied().unwrap_or(0)),
        2 => {
            let parts = proto.tuple_shardings.iter().map(text).collect::<Result<Vec<_>>>()?;
            return Ok(format!("{{{}}}", parts.join(", ")));
        }
        3 => tiles(proto),
        word => subgroup(word).to_owned(),
    };
    Ok(format!("{{{inside}{suffix}}}"))
}

fn tiles(proto: &OpSharding) -> String {
    let devices = match proto.iota_reshape_dims.as_slice() {
        [] => joined(&proto.tile_assignment_devices),
        reshape => format!("<={}", transposed(reshape, &proto.iota_transpose_perm)),
    };
    let last = if proto.replicate_on_last_tile_dim {
        " last_tile_dim_replicate".to_owned()
    } else if proto.last_tile_dims.is_empty() {
        String::new()
    } else {
        let types: Vec<&str> = proto.last_tile_dims.iter().map(|&word| subgroup(word)).collect();
        format!(" last_tile_dims={{{}}}", types.join(", "))
    };
    format!("devices=[{}]{devices}{last}", joined(&proto.tile_assignment_dimensions))
}

fn subgroup(number: i32) -> &'static str {
    match number {
        4 => "manual",
        5 => "unknown",
        6 => "unreduced",
        _ => "replicated",
    }
}
