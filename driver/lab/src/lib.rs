//! Questions that no program is needed for: measured runs against the cost model, plans of profiles, Phaze's
//! placements, the contest's choices, sweeps over clusters of unlike devices, what devices there are,
//! accelerators.

pub mod arch;
pub mod calibrate;
pub mod choose;
pub mod devices;
pub mod phaze_plan;
pub mod profile_plan;
pub mod results;
pub mod sweep;
pub mod validate;
