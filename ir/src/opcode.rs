//! The list of opcodes: one line each, naming the family that holds shape, factor rule and work.

use crate::eval::{AllDevices, Evaluation, Local};
use crate::fusion::{FusionKind, Touch};
use crate::ops::linear::{self, Linear};
use crate::ops::{
    collective, contract, control, convolution, elementwise, indexing, linalg, movement, other, random,
    reduce, window,
};
use crate::rule::Rule;
use crate::shape::Shape;
use crate::view::View;
use crate::work::Work;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use std::sync::OnceLock;

/// What an opcode *is*: the properties of its family.
pub struct OpDef {
    /// Operand counts that are legal.
    pub arity: Arity,
    /// The result shape. `Ok(None)`: it cannot be inferred and has to be written.
    pub infer: fn(&View) -> Result<Option<Shape>, String>,
    /// The factor rule; called on verified instructions only.
    pub rule: fn(&View) -> Rule,
    /// The operands that may be sums that are still to be done.
    pub linear: fn(&View) -> Linear,
    /// FLOPs and transcendentals; bytes are the caller's (they follow from the shapes).
    pub work: fn(&View) -> Work,
    /// What fusion does with it.
    pub fusion: FusionKind,
    /// What it reads and writes.
    pub touch: Touch,
    /// Whether it reads the bits of an operand as elements of another type.
    pub reads_bits: fn(&View) -> bool,
    /// What it computes.
    pub(crate) evaluation: Evaluation,
}

impl OpDef {
    /// An op that touches all of its operands.
    pub const fn new(
        arity: Arity,
        infer: fn(&View) -> Result<Option<Shape>, String>,
        rule: fn(&View) -> Rule,
        work: fn(&View) -> Work,
        fusion: FusionKind,
    ) -> OpDef {
        let (linear, touch, evaluation) =
            (linear::never as fn(&View) -> Linear, Touch::Whole, Evaluation::Undefined);
        OpDef { arity, infer, rule, linear, work, fusion, touch, reads_bits: |_| false, evaluation }
    }

    /// The same op, linear.
    pub const fn linear_in(self, linear: fn(&View) -> Linear) -> OpDef {
        OpDef { linear, ..self }
    }

    /// The same op, touching less.
    pub const fn touching(self, touch: Touch) -> OpDef {
        OpDef { touch, ..self }
    }

    /// The same op, reading bits where the element types differ.
    pub const fn reading_bits(self) -> OpDef {
        OpDef { reads_bits: is_of_another_type, ..self }
    }

    /// The same op, evaluated on each device alone.
    pub(crate) const fn evaluated(self, eval: Local) -> OpDef {
        OpDef { evaluation: Evaluation::Local(eval), ..self }
    }

    /// The same op, evaluated on each device alone, element by element.
    pub(crate) const fn evaluated_by_element(self, eval: Local) -> OpDef {
        OpDef { evaluation: Evaluation::Elementwise(eval), ..self }
    }

    /// The same op, evaluated on all devices together.
    pub(crate) const fn evaluated_jointly(self, eval: AllDevices) -> OpDef {
        OpDef { evaluation: Evaluation::Joint(eval), ..self }
    }
}

fn is_of_another_type(view: &View) -> bool {
    let dtype = |shape: Option<&Shape>| shape.and_then(Shape::as_array).map(|array| array.dtype);
    dtype(view.operand_shape(0)) != dtype(Some(&view.instr.shape))
}

/// A range of operand counts.
#[derive(Clone, Copy, Debug)]
pub enum Arity {
    /// That many.
    Exactly(usize),
    /// That many or more.
    AtLeast(usize),
}

macro_rules! opcodes {
    ($($variant:ident $text:literal $family:expr,)*) => {
        /// An HLO opcode.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the names are HLO's own")]
        pub enum Opcode { $($variant),* }

        impl Opcode {
            /// Every opcode, in alphabetical order.
            pub const ALL: &[Opcode] = &[$(Opcode::$variant),*];

            /// The name in HLO text.
            pub fn as_str(self) -> &'static str {
                match self { $(Opcode::$variant => $text),* }
            }

            /// The functions of its family.
            pub fn def(self) -> &'static OpDef {
                static DEFS: &[&OpDef] = &[$(&$family),*];
                DEFS[self as usize]
            }
        }
    };
}

impl Opcode {
    /// The opcode with this name in HLO text.
    pub fn parse(text: &str) -> Option<Opcode> {
        static NAMES: OnceLock<IndexMap<&'static str, Opcode, FxBuildHasher>> = OnceLock::new();
        let names = NAMES.get_or_init(|| Opcode::ALL.iter().map(|&op| (op.as_str(), op)).collect());
        names.get(text).copied()
    }
}

// All 133 opcodes of XLA 0.10.2 (reference/hlo-text.md section 5).
opcodes! {
    Abs "abs" elementwise::UNARY,
    Acos "acos" elementwise::TRANSCENDENTAL,
    Acosh "acosh" elementwise::TRANSCENDENTAL,
    Add "add" elementwise::BINARY,
    AddDependency "add-dependency" control::ADD_DEPENDENCY,
    AfterAll "after-all" control::AFTER_ALL,
    AllGather "all-gather" collective::ALL_GATHER,
    AllGatherDone "all-gather-done" collective::DONE,
    AllGatherStart "all-gather-start" collective::START,
    AllReduce "all-reduce" collective::ALL_REDUCE,
    AllReduceDone "all-reduce-done" collective::DONE,
    AllReduceStart "all-reduce-start" collective::START,
    AllToAll "all-to-all" collective::ALL_TO_ALL,
    And "and" elementwise::BINARY,
    Asin "asin" elementwise::TRANSCENDENTAL,
    Asinh "asinh" elementwise::TRANSCENDENTAL,
    AsyncDone "async-done" collective::DONE,
    AsyncStart "async-start" collective::ASYNC_START,
    AsyncUpdate "async-update" collective::START,
    Atan2 "atan2" elementwise::TRANSCENDENTAL_BINARY,
    Atanh "atanh" elementwise::TRANSCENDENTAL,
    BatchNormGrad "batch-norm-grad" linalg::BATCH_NORM_GRAD,
    BatchNormInference "batch-norm-inference" linalg::BATCH_NORM_INFERENCE,
    BatchNormTraining "batch-norm-training" linalg::BATCH_NORM_TRAINING,
    Bitcast "bitcast" movement::BITCAST,
    BitcastConvert "bitcast-convert" elementwise::BITCAST_CONVERT,
    Broadcast "broadcast" movement::BROADCAST,
    Call "call" control::CALL,
    Cbrt "cbrt" elementwise::TRANSCENDENTAL,
    Ceil "ceil" elementwise::UNARY,
    Cholesky "cholesky" linalg::CHOLESKY,
    Clamp "clamp" elementwise::CLAMP,
    CollectiveBroadcast "collective-broadcast" collective::BROADCAST,
    CollectivePermute "collective-permute" collective::PERMUTE,
    CollectivePermuteDone "collective-permute-done" collective::DONE,
    CollectivePermuteStart "collective-permute-start" collective::START,
    Compare "compare" elementwise::COMPARE,
    Complex "complex" elementwise::COMPLEX,
    Concatenate "concatenate" movement::CONCATENATE,
    Conditional "conditional" control::CONDITIONAL,
    Constant "constant" other::CONSTANT,
    Convert "convert" elementwise::CONVERT,
    Convolution "convolution" convolution::CONVOLUTION,
    Copy "copy" elementwise::COPY,
    CopyDone "copy-done" collective::DONE,
    CopyStart "copy-start" collective::START,
    Cosh "cosh" elementwise::TRANSCENDENTAL,
    Cosine "cosine" elementwise::TRANSCENDENTAL,
    CountLeadingZeros "count-leading-zeros" elementwise::UNARY,
    CustomCall "custom-call" other::CUSTOM_CALL,
    Divide "divide" elementwise::BINARY,
    Domain "domain" control::DOMAIN,
    Dot "dot" contract::DOT,
    DynamicReshape "dynamic-reshape" movement::DYNAMIC_RESHAPE,
    DynamicSlice "dynamic-slice" indexing::DYNAMIC_SLICE,
    DynamicUpdateSlice "dynamic-update-slice" indexing::DYNAMIC_UPDATE_SLICE,
    Erf "erf" elementwise::TRANSCENDENTAL,
    Exponential "exponential" elementwise::TRANSCENDENTAL,
    ExponentialMinusOne "exponential-minus-one" elementwise::TRANSCENDENTAL,
    Fft "fft" linalg::FFT,
    Floor "floor" elementwise::UNARY,
    Fusion "fusion" control::FUSION,
    Gather "gather" indexing::GATHER,
    GetDimensionSize "get-dimension-size" other::GET_DIMENSION_SIZE,
    GetTupleElement "get-tuple-element" control::GET_TUPLE_ELEMENT,
    Imag "imag" elementwise::REAL_PART,
    Infeed "infeed" other::OPAQUE,
    Iota "iota" other::IOTA,
    IsFinite "is-finite" elementwise::IS_FINITE,
    Log "log" elementwise::TRANSCENDENTAL,
    LogPlusOne "log-plus-one" elementwise::TRANSCENDENTAL,
    Logistic "logistic" elementwise::TRANSCENDENTAL,
    Map "map" elementwise::MAP,
    Maximum "maximum" elementwise::BINARY,
    Minimum "minimum" elementwise::BINARY,
    Mulhi "mulhi" elementwise::BINARY,
    Multiply "multiply" elementwise::BINARY,
    Negate "negate" elementwise::UNARY,
    Not "not" elementwise::UNARY,
    OptBarrier "opt-barrier" control::OPT_BARRIER,
    Or "or" elementwise::BINARY,
    Outfeed "outfeed" other::OUTFEED,
    Pad "pad" movement::PAD,
    Parameter "parameter" other::PARAMETER,
    PartitionId "partition-id" other::DEVICE_ID,
    Popcnt "popcnt" elementwise::UNARY,
    Power "power" elementwise::TRANSCENDENTAL_BINARY,
    RaggedAllToAll "ragged-all-to-all" other::OPAQUE,
    RaggedDot "ragged-dot" contract::RAGGED_DOT,
    Real "real" elementwise::REAL_PART,
    Recv "recv" other::OPAQUE,
    RecvDone "recv-done" other::OPAQUE,
    Reduce "reduce" reduce::REDUCE,
    ReducePrecision "reduce-precision" elementwise::UNARY,
    ReduceScatter "reduce-scatter" collective::REDUCE_SCATTER,
    ReduceWindow "reduce-window" window::REDUCE_WINDOW,
    Remainder "remainder" elementwise::BINARY,
    ReplicaId "replica-id" other::DEVICE_ID,
    Reshape "reshape" movement::RESHAPE,
    Reverse "reverse" movement::REVERSE,
    Rng "rng" random::RNG,
    RngBitGenerator "rng-bit-generator" random::RNG_BIT_GENERATOR,
    RngGetAndUpdateState "rng-get-and-update-state" random::RNG_STATE,
    RoundNearestAfz "round-nearest-afz" elementwise::UNARY,
    RoundNearestEven "round-nearest-even" elementwise::UNARY,
    Rsqrt "rsqrt" elementwise::TRANSCENDENTAL,
    ScaledDot "scaled-dot" contract::SCALED_DOT,
    Scan "scan" control::SCAN,
    Scatter "scatter" indexing::SCATTER,
    Select "select" elementwise::SELECT,
    SelectAndScatter "select-and-scatter" window::SELECT_AND_SCATTER,
    Send "send" other::OPAQUE,
    SendDone "send-done" other::OPAQUE,
    SetDimensionSize "set-dimension-size" other::SET_DIMENSION_SIZE,
    ShiftLeft "shift-left" elementwise::BINARY,
    ShiftRightArithmetic "shift-right-arithmetic" elementwise::BINARY,
    ShiftRightLogical "shift-right-logical" elementwise::BINARY,
    Sign "sign" elementwise::UNARY,
    Sine "sine" elementwise::TRANSCENDENTAL,
    Sinh "sinh" elementwise::TRANSCENDENTAL,
    Slice "slice" movement::SLICE,
    Sort "sort" linalg::SORT,
    Sqrt "sqrt" elementwise::TRANSCENDENTAL,
    StochasticConvert "stochastic-convert" elementwise::STOCHASTIC_CONVERT,
    Subtract "subtract" elementwise::BINARY,
    Tan "tan" elementwise::TRANSCENDENTAL,
    Tanh "tanh" elementwise::TRANSCENDENTAL,
    Topk "topk" linalg::TOPK,
    Transpose "transpose" movement::TRANSPOSE,
    TriangularSolve "triangular-solve" linalg::TRIANGULAR_SOLVE,
    Tuple "tuple" control::TUPLE,
    While "while" control::WHILE,
    Xor "xor" elementwise::BINARY,
}
