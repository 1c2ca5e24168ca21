//! The operators: one line each, from the name to the function that lowers it.

use super::node::{Cx, Value};
use super::proto::Node;
use super::{
    activation, convolution, elementwise, generate, index, loss, matmul, movement, normalize, pool, reduce,
    select,
};
use Lowering::{Branch, Many, One};
use phzc_ir::{InstrId, Opcode, Result};

/// How an operator becomes instructions.
#[derive(Clone, Copy)]
pub(super) enum Lowering {
    /// It has one output.
    One(fn(&mut Cx) -> Result<InstrId>),
    /// It has several, or one that may be known while converting.
    Many(fn(&mut Cx) -> Result<Vec<Value>>),
    /// It is a choice of graphs.
    Branch,
}

impl Lowering {
    /// The node's outputs.
    pub fn lower(self, mut cx: Cx) -> Result<Vec<Value>> {
        match self {
            One(lower) => Ok(vec![Value::Made(lower(&mut cx)?)]),
            Many(lower) => lower(&mut cx),
            Branch => Ok(Vec::new()),
        }
    }
}

/// The lowering of a node's operator.
pub(super) fn find(node: &Node) -> Option<Lowering> {
    let is_onnx = matches!(&*node.domain, "" | "ai.onnx");
    let entry = OPERATORS.iter().find(|(name, _)| *name == node.op_type && is_onnx);
    entry.map(|&(_, lowering)| lowering)
}

/// All operators that are read, in alphabetical order.
const OPERATORS: &[(&str, Lowering)] = &[
    ("Abs", One(|cx| elementwise::map(cx, Opcode::Abs))),
    ("Acos", One(|cx| elementwise::map(cx, Opcode::Acos))),
    ("Acosh", One(|cx| elementwise::map(cx, Opcode::Acosh))),
    ("Add", One(|cx| elementwise::combine(cx, Opcode::Add))),
    ("And", One(|cx| elementwise::combine(cx, Opcode::And))),
    ("ArgMax", One(|cx| select::arg(cx, Opcode::Maximum))),
    ("ArgMin", One(|cx| select::arg(cx, Opcode::Minimum))),
    ("Asin", One(|cx| elementwise::map(cx, Opcode::Asin))),
    ("Asinh", One(|cx| elementwise::map(cx, Opcode::Asinh))),
    ("Atanh", One(|cx| elementwise::map(cx, Opcode::Atanh))),
    ("AveragePool", One(pool::average)),
    ("BatchNormalization", One(normalize::batch)),
    ("BitwiseAnd", One(|cx| elementwise::combine(cx, Opcode::And))),
    ("BitwiseNot", One(|cx| elementwise::map(cx, Opcode::Not))),
    ("BitwiseOr", One(|cx| elementwise::combine(cx, Opcode::Or))),
    ("BitwiseXor", One(|cx| elementwise::combine(cx, Opcode::Xor))),
    ("Cast", One(elementwise::cast)),
    ("CastLike", One(elementwise::cast_like)),
    ("Ceil", One(|cx| elementwise::map(cx, Opcode::Ceil))),
    ("Celu", One(activation::celu)),
    ("Clip", One(activation::clip)),
    ("Concat", One(movement::concat)),
    ("Constant", Many(generate::constant)),
    ("ConstantOfShape", One(generate::constant_of_shape)),
    ("Conv", One(convolution::conv)),
    ("ConvTranspose", One(convolution::conv_transpose)),
    ("Cos", One(|cx| elementwise::map(cx, Opcode::Cosine))),
    ("Cosh", One(|cx| elementwise::map(cx, Opcode::Cosh))),
    ("CumSum", One(reduce::cumsum)),
    ("DepthToSpace", One(movement::depth_to_space)),
    ("Div", One(|cx| elementwise::combine(cx, Opcode::Divide))),
    ("Dropout", Many(normalize::dropout)),
    ("Einsum", One(matmul::einsum)),
    ("Elu", One(activation::elu)),
    ("Equal", One(|cx| elementwise::compare(cx, "EQ"))),
    ("Erf", One(|cx| elementwise::map(cx, Opcode::Erf))),
    ("Exp", One(|cx| elementwise::map(cx, Opcode::Exponential))),
    ("Expand", One(movement::expand)),
    ("EyeLike", One(generate::eye_like)),
    ("Flatten", One(movement::flatten)),
    ("Floor", One(|cx| elementwise::map(cx, Opcode::Floor))),
    ("Gather", One(index::gather)),
    ("GatherElements", One(index::gather_elements)),
    ("GatherND", One(index::gather_nd)),
    ("Gelu", One(activation::gelu)),
    ("Gemm", One(matmul::gemm)),
    ("GlobalAveragePool", One(|cx| pool::global(cx, |b, x, dims| b.mean(x, dims)))),
    ("GlobalMaxPool", One(|cx| pool::global(cx, |b, x, dims| b.max_of(x, dims)))),
    ("Greater", One(|cx| elementwise::compare(cx, "GT"))),
    ("GreaterOrEqual", One(|cx| elementwise::compare(cx, "GE"))),
    ("GroupNormalization", One(normalize::group)),
    ("HardSigmoid", One(activation::hard_sigmoid)),
    ("HardSwish", One(activation::hard_swish)),
    ("Identity", Many(generate::identity)),
    ("If", Branch),
    ("InstanceNormalization", One(normalize::instance)),
    ("IsInf", One(elementwise::is_inf)),
    ("IsNaN", One(elementwise::is_nan)),
    ("LayerNormalization", Many(normalize::layer)),
    ("LeakyRelu", One(activation::leaky_relu)),
    ("Less", One(|cx| elementwise::compare(cx, "LT"))),
    ("LessOrEqual", One(|cx| elementwise::compare(cx, "LE"))),
    ("Log", One(|cx| elementwise::map(cx, Opcode::Log))),
    ("LogSoftmax", One(normalize::log_softmax)),
    ("MatMul", One(matmul::matmul)),
    ("Max", One(|cx| elementwise::combine(cx, Opcode::Maximum))),
    ("MaxPool", One(pool::max)),
    ("Mean", One(elementwise::mean)),
    ("Min", One(|cx| elementwise::combine(cx, Opcode::Minimum))),
    ("Mish", One(activation::mish)),
    ("Mod", One(elementwise::modulo)),
    ("Mul", One(|cx| elementwise::combine(cx, Opcode::Multiply))),
    ("Neg", One(|cx| elementwise::map(cx, Opcode::Negate))),
    ("NegativeLogLikelihoodLoss", One(loss::negative_log_likelihood)),
    ("NonZero", Many(generate::non_zero)),
    ("Not", One(|cx| elementwise::map(cx, Opcode::Not))),
    ("OneHot", One(generate::one_hot)),
    ("Or", One(|cx| elementwise::combine(cx, Opcode::Or))),
    ("PRelu", One(activation::prelu)),
    ("Pad", One(movement::pad)),
    ("Pow", One(elementwise::pow)),
    ("RMSNormalization", One(normalize::rms)),
    ("Range", One(generate::range)),
    ("Reciprocal", One(elementwise::reciprocal)),
    ("ReduceL1", One(|cx| reduce::reduce(cx, reduce::l1))),
    ("ReduceL2", One(|cx| reduce::reduce(cx, reduce::l2))),
    ("ReduceLogSum", One(|cx| reduce::reduce(cx, reduce::log_sum))),
    ("ReduceLogSumExp", One(|cx| reduce::reduce(cx, reduce::log_sum_exp))),
    ("ReduceMax", One(|cx| reduce::reduce(cx, reduce::largest))),
    ("ReduceMean", One(|cx| reduce::reduce(cx, reduce::mean))),
    ("ReduceMin", One(|cx| reduce::reduce(cx, reduce::smallest))),
    ("ReduceProd", One(|cx| reduce::reduce(cx, reduce::product))),
    ("ReduceSum", One(|cx| reduce::reduce(cx, reduce::sum))),
    ("ReduceSumSquare", One(|cx| reduce::reduce(cx, reduce::sum_square))),
    ("Relu", One(activation::relu)),
    ("Reshape", One(movement::reshape)),
    ("Round", One(|cx| elementwise::map(cx, Opcode::RoundNearestEven))),
    ("ScatterElements", One(index::scatter_elements)),
    ("ScatterND", One(index::scatter_nd)),
    ("Selu", One(activation::selu)),
    ("Shape", Many(generate::shape)),
    ("Sigmoid", One(|cx| elementwise::map(cx, Opcode::Logistic))),
    ("Sign", One(|cx| elementwise::map(cx, Opcode::Sign))),
    ("Sin", One(|cx| elementwise::map(cx, Opcode::Sine))),
    ("Sinh", One(|cx| elementwise::map(cx, Opcode::Sinh))),
    ("Size", Many(generate::size)),
    ("Slice", One(movement::slice)),
    ("Softmax", One(normalize::softmax)),
    ("SoftmaxCrossEntropyLoss", Many(loss::softmax_cross_entropy)),
    ("Softplus", One(activation::softplus)),
    ("Softsign", One(activation::softsign)),
    ("SpaceToDepth", One(movement::space_to_depth)),
    ("Split", Many(movement::split)),
    ("Sqrt", One(|cx| elementwise::map(cx, Opcode::Sqrt))),
    ("Squeeze", One(movement::squeeze)),
    ("Sub", One(|cx| elementwise::combine(cx, Opcode::Subtract))),
    ("Sum", One(|cx| elementwise::combine(cx, Opcode::Add))),
    ("Swish", One(activation::swish)),
    ("Tan", One(|cx| elementwise::map(cx, Opcode::Tan))),
    ("Tanh", One(|cx| elementwise::map(cx, Opcode::Tanh))),
    ("ThresholdedRelu", One(activation::thresholded_relu)),
    ("Tile", One(movement::tile)),
    ("TopK", Many(select::top_k)),
    ("Transpose", One(movement::transpose)),
    ("Trilu", One(select::trilu)),
    ("Unsqueeze", One(movement::unsqueeze)),
    ("Where", One(elementwise::choose)),
    ("Xor", One(|cx| elementwise::combine(cx, Opcode::Xor))),
];
