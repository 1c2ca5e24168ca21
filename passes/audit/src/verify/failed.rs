//! Why a program and its plan were not compared, and which of the two the error is of.

use phzc_ir::Diagnostic;

/// Why nothing was compared.
#[derive(Clone, Debug)]
pub struct Failed {
    /// What went wrong.
    pub error: Diagnostic,
    /// Whether its span points into the plan; otherwise into the program.
    pub is_of_plan: bool,
}

impl Failed {
    /// An error that points into the program.
    pub(super) fn of_program(error: Diagnostic) -> Failed {
        Failed { error, is_of_plan: false }
    }
}

impl From<Diagnostic> for Failed {
    fn from(error: Diagnostic) -> Failed {
        Failed { error, is_of_plan: true }
    }
}
