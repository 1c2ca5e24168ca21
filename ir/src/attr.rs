//! Instruction attributes: every key that XLA knows, each with the form of its value.

use crate::module::CompId;
use crate::sharding::Sharding;
use smallvec::SmallVec;

/// How an attribute's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `{0,2}`.
    Ints,
    /// `3`.
    Int,
    /// `true`.
    Bool,
    /// `LT`, `rng_default`, `2.5`.
    Word,
    /// `"text"`.
    Str,
    /// A computation's name or inline body.
    Comp,
    /// `{a, b}`: computation names.
    Comps,
    /// `{[0:4:1], [1:64:2]}`.
    Slices,
    /// `0_-1x0_0_1`.
    Padding,
    /// `{size=3x3 pad=1_1x1_1}`.
    Window,
    /// `b01f_01io->b01f`.
    DimLabels,
    /// `{devices=[2,4]<=[8]}`.
    Sharding,
    /// `{key="text",…}`.
    Notes,
    /// Anything with balanced brackets, kept as text.
    Raw,
}

/// An attribute of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Attr {
    /// Which.
    pub key: Key,
    /// Its value.
    pub value: Value,
}

/// An attribute's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Integers in braces.
    Ints(SmallVec<[i64; 4]>),
    /// One integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A bare word.
    Word(Box<str>),
    /// The text between quotes, escapes as written.
    Str(Box<str>),
    /// A computation.
    Comp(CompId),
    /// Several computations.
    Comps(Vec<CompId>),
    /// Start, limit and stride per dimension.
    Slices(Vec<SliceDim>),
    /// Low, high and interior padding per dimension.
    Padding(SmallVec<[PadDim; 4]>),
    /// A sliding window.
    Window(Box<Window>),
    /// Roles of a convolution's dimensions.
    DimLabels(Box<DimLabels>),
    /// A layout over devices.
    Sharding(Box<Sharding>),
    /// Keys with their value text, quotes included.
    Notes(Vec<(Box<str>, Box<str>)>),
    /// Text kept as written.
    Raw(Box<str>),
}

/// One dimension of `slice={[start:limit:stride]}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceDim {
    /// First element.
    pub start: i64,
    /// One past the last element.
    pub limit: i64,
    /// Step.
    pub stride: i64,
}

/// One dimension of `padding=low_high_interior`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PadDim {
    /// Elements before; negative crops.
    pub low: i64,
    /// Elements after; negative crops.
    pub high: i64,
    /// Elements between neighbours.
    pub interior: i64,
}

/// One dimension of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowDim {
    /// Elements.
    pub size: i64,
    /// Step between windows.
    pub stride: i64,
    /// Padding before; negative crops.
    pub pad_low: i64,
    /// Padding after; negative crops.
    pub pad_high: i64,
    /// Distance between neighbours of the input (1: dense).
    pub lhs_dilate: i64,
    /// Distance between neighbours of the window (1: dense).
    pub rhs_dilate: i64,
    /// Whether the window is reversed.
    pub reversed: bool,
}

impl Default for WindowDim {
    fn default() -> WindowDim {
        WindowDim {
            size: 1,
            stride: 1,
            pad_low: 0,
            pad_high: 0,
            lhs_dilate: 1,
            rhs_dilate: 1,
            reversed: false,
        }
    }
}

impl WindowDim {
    /// Whether the window leaves the dimension as it is.
    pub fn is_trivial(&self) -> bool {
        *self == WindowDim { rhs_dilate: self.rhs_dilate, reversed: self.reversed, ..WindowDim::default() }
    }
}

/// `window={size=3x3 stride=2x2 …}`; `keys` remembers which were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// One entry per window dimension.
    pub dims: SmallVec<[WindowDim; 4]>,
    /// The keys as written, in order: they are printed back.
    pub keys: SmallVec<[WindowKey; 6]>,
}

/// The keys of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are HLO's own")]
pub enum WindowKey {
    Size,
    Stride,
    Pad,
    LhsDilate,
    RhsDilate,
    RhsReversal,
}

/// `dim_labels=b01f_01io->b01f`: the position of each role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimLabels {
    /// Batch, feature and spatial positions of the input.
    pub lhs: LabelledDims,
    /// Output-feature (`major`), input-feature (`minor`) and spatial positions of the kernel.
    pub rhs: LabelledDims,
    /// Batch, feature and spatial positions of the result.
    pub out: LabelledDims,
    /// The text as written.
    pub text: Box<str>,
}

/// Positions of the roles in one tensor of a convolution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelledDims {
    /// `b` of an input or result, `o` of a kernel.
    pub major: usize,
    /// `f` of an input or result, `i` of a kernel.
    pub minor: usize,
    /// Positions of spatial dimension 0, 1, ….
    pub spatial: SmallVec<[usize; 4]>,
}

macro_rules! keys {
    ($($variant:ident $text:literal $form:ident,)*) => {
        /// An attribute's name.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are HLO's own")]
        pub enum Key {
            $($variant,)*
            /// A name this version of phzc does not know; the value is kept as text.
            Other(Box<str>),
        }

        impl Key {
            /// The name in HLO text.
            pub fn as_str(&self) -> &str {
                match self { $(Key::$variant => $text,)* Key::Other(name) => name }
            }

            /// The key with this name.
            pub fn parse(text: &str) -> Key {
                match text { $($text => Key::$variant,)* other => Key::Other(other.into()) }
            }

            /// How its value is written.
            pub fn form(&self) -> Form {
                match self { $(Key::$variant => Form::$form,)* Key::Other(_) => Form::Raw }
            }
        }
    };
}

// Names and forms: XLA 0.10.2's own report per opcode, and the corpora (hlo-text.md sections 1 and 5).
keys! {
    Algorithm "algorithm" Word,
    ApiVersion "api_version" Word,
    AsyncExecutionThread "async_execution_thread" Str,
    BackendConfig "backend_config" Raw,
    BatchGroupCount "batch_group_count" Int,
    Body "body" Comp,
    BranchComputations "branch_computations" Comps,
    CalledComputations "called_computations" Comps,
    Calls "calls" Comp,
    ChannelId "channel_id" Int,
    CollapsedSliceDims "collapsed_slice_dims" Ints,
    Condition "condition" Comp,
    ConstrainLayout "constrain_layout" Bool,
    ControlPredecessors "control-predecessors" Raw,
    ConvolutionKind "convolution_kind" Word,
    CustomCallHasSideEffect "custom_call_has_side_effect" Bool,
    CustomCallTarget "custom_call_target" Str,
    DimLabels "dim_labels" DimLabels,
    Dimensions "dimensions" Ints,
    Direction "direction" Word,
    Distribution "distribution" Word,
    DynamicSliceSizes "dynamic_slice_sizes" Ints,
    Epsilon "epsilon" Word,
    ExponentBits "exponent_bits" Int,
    FalseComputation "false_computation" Comp,
    FeatureGroupCount "feature_group_count" Int,
    FeatureIndex "feature_index" Int,
    FftLength "fft_length" Ints,
    FftType "fft_type" Word,
    FrontendAttributes "frontend_attributes" Notes,
    Index "index" Int,
    IndexVectorDim "index_vector_dim" Int,
    IndicesAreSorted "indices_are_sorted" Bool,
    InferredDimension "inferred_dimension" Int,
    InfeedConfig "infeed_config" Str,
    InputBatchingDims "input_batching_dims" Ints,
    InsertedWindowDims "inserted_window_dims" Ints,
    IotaDimension "iota_dimension" Int,
    IsAssociative "is_associative" Word,
    IsComposite "is_composite" Bool,
    IsHostTransfer "is_host_transfer" Bool,
    IsReverse "is_reverse" Bool,
    IsStable "is_stable" Bool,
    K "k" Int,
    Kind "kind" Word,
    Largest "largest" Bool,
    LeftSide "left_side" Bool,
    LhsBatchDims "lhs_batch_dims" Ints,
    LhsContractingDims "lhs_contracting_dims" Ints,
    LhsRaggedDims "lhs_ragged_dims" Ints,
    Literal "literal" Raw,
    Lower "lower" Bool,
    MantissaBits "mantissa_bits" Int,
    Metadata "metadata" Raw,
    Mode "mode" Word,
    NumCarries "num_carries" Int,
    OffsetDims "offset_dims" Ints,
    OperandBatchingDims "operand_batching_dims" Ints,
    OperandLayoutConstraints "operand_layout_constraints" Raw,
    OperandPrecision "operand_precision" Raw,
    Origin "origin" Raw,
    OutfeedConfig "outfeed_config" Str,
    OutfeedShape "outfeed_shape" Raw,
    OutputToOperandAliasing "output_to_operand_aliasing" Raw,
    Padding "padding" Padding,
    PaddingType "padding_type" Word,
    ParameterReplication "parameter_replication" Raw,
    ReplicaGroups "replica_groups" Raw,
    ResultAccuracy "result_accuracy" Raw,
    RhsBatchDims "rhs_batch_dims" Ints,
    RhsContractingDims "rhs_contracting_dims" Ints,
    RhsGroupDims "rhs_group_dims" Ints,
    Scatter "scatter" Comp,
    ScatterDimsToOperandDims "scatter_dims_to_operand_dims" Ints,
    ScatterIndicesBatchingDims "scatter_indices_batching_dims" Ints,
    Schedule "schedule" Word,
    Select "select" Comp,
    Sharding "sharding" Sharding,
    Slice "slice" Slices,
    SliceSizes "slice_sizes" Ints,
    SourceTargetPairs "source_target_pairs" Raw,
    SparsityConfig "sparsity_config" Raw,
    StartIndexMap "start_index_map" Ints,
    StartIndicesBatchingDims "start_indices_batching_dims" Ints,
    Statistics "statistics" Raw,
    ToApply "to_apply" Comp,
    TransposeA "transpose_a" Word,
    TrueComputation "true_computation" Comp,
    Type "type" Word,
    UniqueIndices "unique_indices" Bool,
    UnitDiagonal "unit_diagonal" Bool,
    UpdateWindowDims "update_window_dims" Ints,
    UseGlobalDeviceIds "use_global_device_ids" Bool,
    Window "window" Window,
}
