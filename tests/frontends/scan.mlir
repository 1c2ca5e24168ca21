module @jit_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x8x8xf32>, %arg1: tensor<4x8xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<3x8x8xf32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x4x8xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x4x8xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<3x4x8xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<3x4x8xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<3x4x8xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %7:10 = stablehlo.while(%iterArg = %arg0, %iterArg_12 = %c, %iterArg_13 = %arg1, %iterArg_14 = %0, %iterArg_15 = %1, %iterArg_16 = %2, %iterArg_17 = %3, %iterArg_18 = %4, %iterArg_19 = %5, %iterArg_20 = %6) : tensor<3x8x8xf32>, tensor<i32>, tensor<4x8xf32>, tensor<3xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3xf32>
    cond {
      %c_21 = stablehlo.constant dense<3> : tensor<i32>
      %15 = stablehlo.compare LT, %iterArg_12, %c_21, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %15 : tensor<i1>
    } do {
      %15 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_12) : (tensor<3x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
      %16:8 = func.call @closed_call(%iterArg_13, %15) : (tensor<4x8xf32>, tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>)
      %17 = func.call @dynamic_update_index_in_dim(%iterArg_14, %16#1, %iterArg_12) : (tensor<3xf32>, tensor<f32>, tensor<i32>) -> tensor<3xf32>
      %18 = func.call @dynamic_update_index_in_dim_0(%iterArg_15, %16#2, %iterArg_12) : (tensor<3x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<3x4x8xf32>
      %19 = func.call @dynamic_update_index_in_dim_0(%iterArg_16, %16#3, %iterArg_12) : (tensor<3x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<3x4x8xf32>
      %20 = func.call @dynamic_update_index_in_dim_0(%iterArg_17, %16#4, %iterArg_12) : (tensor<3x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<3x4x8xf32>
      %21 = func.call @dynamic_update_index_in_dim_0(%iterArg_18, %16#5, %iterArg_12) : (tensor<3x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<3x4x8xf32>
      %22 = func.call @dynamic_update_index_in_dim_0(%iterArg_19, %16#6, %iterArg_12) : (tensor<3x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<3x4x8xf32>
      %23 = func.call @dynamic_update_index_in_dim(%iterArg_20, %16#7, %iterArg_12) : (tensor<3xf32>, tensor<f32>, tensor<i32>) -> tensor<3xf32>
      %c_21 = stablehlo.constant dense<1> : tensor<i32>
      %24 = stablehlo.add %iterArg_12, %c_21 : tensor<i32>
      stablehlo.return %iterArg, %24, %16#0, %17, %18, %19, %20, %21, %22, %23 : tensor<3x8x8xf32>, tensor<i32>, tensor<4x8xf32>, tensor<3xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3xf32>
    }
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.reduce(%7#2 init: %cst_6) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%7#3 init: %cst_7) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    %10 = stablehlo.add %8, %9 : tensor<f32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<3x8x8xf32>
    %c_11 = stablehlo.constant dense<0> : tensor<i32>
    %14:11 = stablehlo.while(%iterArg = %11, %iterArg_12 = %arg0, %iterArg_13 = %7#4, %iterArg_14 = %7#5, %iterArg_15 = %7#6, %iterArg_16 = %7#7, %iterArg_17 = %7#8, %iterArg_18 = %7#9, %iterArg_19 = %c_11, %iterArg_20 = %12, %iterArg_21 = %13) : tensor<3xf32>, tensor<3x8x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3xf32>, tensor<i32>, tensor<4x8xf32>, tensor<3x8x8xf32>
    cond {
      %c_22 = stablehlo.constant dense<3> : tensor<i32>
      %15 = stablehlo.compare LT, %iterArg_19, %c_22, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %15 : tensor<i1>
    } do {
      %c_22 = stablehlo.constant dense<3> : tensor<i32>
      %15 = stablehlo.subtract %c_22, %iterArg_19 : tensor<i32>
      %c_23 = stablehlo.constant dense<1> : tensor<i32>
      %16 = stablehlo.subtract %15, %c_23 : tensor<i32>
      %17 = func.call @dynamic_index_in_dim_1(%iterArg, %16) : (tensor<3xf32>, tensor<i32>) -> tensor<f32>
      %18 = func.call @dynamic_index_in_dim(%iterArg_12, %16) : (tensor<3x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
      %19 = func.call @dynamic_index_in_dim_2(%iterArg_13, %16) : (tensor<3x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
      %20 = func.call @dynamic_index_in_dim_2(%iterArg_14, %16) : (tensor<3x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
      %21 = func.call @dynamic_index_in_dim_2(%iterArg_15, %16) : (tensor<3x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
      %22 = func.call @dynamic_index_in_dim_2(%iterArg_16, %16) : (tensor<3x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
      %23 = func.call @dynamic_index_in_dim_2(%iterArg_17, %16) : (tensor<3x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
      %24 = func.call @dynamic_index_in_dim_1(%iterArg_18, %16) : (tensor<3xf32>, tensor<i32>) -> tensor<f32>
      %25:2 = func.call @closed_call_3(%iterArg_20, %17, %18, %19, %20, %21, %22, %23, %24) : (tensor<4x8xf32>, tensor<f32>, tensor<8x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> (tensor<4x8xf32>, tensor<8x8xf32>)
      %26 = func.call @dynamic_update_index_in_dim_4(%iterArg_21, %25#1, %16) : (tensor<3x8x8xf32>, tensor<8x8xf32>, tensor<i32>) -> tensor<3x8x8xf32>
      %c_24 = stablehlo.constant dense<1> : tensor<i32>
      %27 = stablehlo.add %iterArg_19, %c_24 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_12, %iterArg_13, %iterArg_14, %iterArg_15, %iterArg_16, %iterArg_17, %iterArg_18, %27, %25#0, %26 : tensor<3xf32>, tensor<3x8x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3xf32>, tensor<i32>, tensor<4x8xf32>, tensor<3x8x8xf32>
    }
    return %10, %14#10 : tensor<f32>, tensor<3x8x8xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<3x8x8xf32>, %arg1: tensor<i32>) -> tensor<8x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
  func.func private @closed_call(%arg0: tensor<4x8xf32>, %arg1: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %2 = stablehlo.multiply %1, %0 : tensor<4x8xf32>
    %3 = stablehlo.negate %0 : tensor<4x8xf32>
    %cst_0 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<4x8xf32>
    %6 = chlo.erfc %5 : tensor<4x8xf32> -> tensor<4x8xf32>
    %7 = chlo.square %5 : tensor<4x8xf32> -> tensor<4x8xf32>
    %8 = stablehlo.negate %7 : tensor<4x8xf32>
    %9 = stablehlo.exponential %8 : tensor<4x8xf32>
    %10 = stablehlo.multiply %2, %6 : tensor<4x8xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %11 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
    %12 = stablehlo.reshape %11 : (tensor<f32>) -> tensor<1x1xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<4x8xf32>
    %14 = stablehlo.compare EQ, %arg0, %13, FLOAT : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
    %15 = stablehlo.convert %14 : (tensor<4x8xi1>) -> tensor<4x8xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %16 = stablehlo.reduce(%15 init: %cst_2) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
    return %10, %11, %arg0, %9, %6, %2, %15, %16 : tensor<4x8xf32>, tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<3xf32>, %arg1: tensor<f32>, %arg2: tensor<i32>) -> tensor<3xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2 : (tensor<3xf32>, tensor<1xf32>, tensor<i32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
  func.func private @dynamic_update_index_in_dim_0(%arg0: tensor<3x4x8xf32>, %arg1: tensor<4x8xf32>, %arg2: tensor<i32>) -> tensor<3x4x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<4x8xf32>) -> tensor<1x4x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x4x8xf32>, tensor<1x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x4x8xf32>
    return %1 : tensor<3x4x8xf32>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<3xf32>, %arg1: tensor<i32>) -> tensor<f32> {
    %0 = stablehlo.dynamic_slice %arg0, %arg1, sizes = [1] : (tensor<3xf32>, tensor<i32>) -> tensor<1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1xf32>) -> tensor<f32>
    return %1 : tensor<f32>
  }
  func.func private @dynamic_index_in_dim_2(%arg0: tensor<3x4x8xf32>, %arg1: tensor<i32>) -> tensor<4x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 4, 8] : (tensor<3x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
  func.func private @closed_call_3(%arg0: tensor<4x8xf32>, %arg1: tensor<f32>, %arg2: tensor<8x8xf32>, %arg3: tensor<4x8xf32>, %arg4: tensor<4x8xf32>, %arg5: tensor<4x8xf32>, %arg6: tensor<4x8xf32>, %arg7: tensor<4x8xf32>, %arg8: tensor<f32>) -> (tensor<4x8xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.divide %arg1, %arg8 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %2 = stablehlo.multiply %1, %arg7 : tensor<4x8xf32>
    %3 = stablehlo.multiply %arg6, %arg0 : tensor<4x8xf32>
    %4 = stablehlo.multiply %arg0, %arg5 : tensor<4x8xf32>
    %cst = stablehlo.constant dense<-1.12837923> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %6 = stablehlo.multiply %5, %3 : tensor<4x8xf32>
    %7 = stablehlo.multiply %6, %arg4 : tensor<4x8xf32>
    %cst_0 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %9 = stablehlo.multiply %7, %8 : tensor<4x8xf32>
    %10 = stablehlo.negate %9 : tensor<4x8xf32>
    %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %12 = stablehlo.multiply %11, %4 : tensor<4x8xf32>
    %13 = stablehlo.add %10, %12 : tensor<4x8xf32>
    %14 = stablehlo.dot_general %13, %arg3, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %15 = stablehlo.transpose %14, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %16 = stablehlo.dot_general %13, %arg2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %17 = stablehlo.add %2, %16 : tensor<4x8xf32>
    return %17, %15 : tensor<4x8xf32>, tensor<8x8xf32>
  }
  func.func private @dynamic_update_index_in_dim_4(%arg0: tensor<3x8x8xf32>, %arg1: tensor<8x8xf32>, %arg2: tensor<i32>) -> tensor<3x8x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x8xf32>
    return %1 : tensor<3x8x8xf32>
  }
}
