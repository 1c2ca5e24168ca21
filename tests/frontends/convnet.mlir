module @jit_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x3x3x8xf32>, %arg1: tensor<3x3x8x4xf32>, %arg2: tensor<2x9x9x3xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<3x3x3x8xf32> {jax.result_info = "result[1][0]"}, tensor<3x3x8x4xf32> {jax.result_info = "result[1][1]"}) {
    %0 = stablehlo.convolution(%arg2, %arg0) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x9x9x3xf32>, tensor<3x3x3x8xf32>) -> tensor<2x5x5x8xf32>
    %1 = call @relu(%0) : (tensor<2x5x5x8xf32>) -> tensor<2x5x5x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x5x5x8xf32>
    %3 = stablehlo.compare GT, %0, %2, FLOAT : (tensor<2x5x5x8xf32>, tensor<2x5x5x8xf32>) -> tensor<2x5x5x8xi1>
    %4 = stablehlo.convolution(%1, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x5x5x8xf32>, tensor<3x3x8x4xf32>) -> tensor<2x5x5x4xf32>
    %5 = call @relu_0(%4) : (tensor<2x5x5x4xf32>) -> tensor<2x5x5x4xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x5x5x4xf32>
    %7 = stablehlo.compare GT, %4, %6, FLOAT : (tensor<2x5x5x4xf32>, tensor<2x5x5x4xf32>) -> tensor<2x5x5x4xi1>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<f32>
    %9 = "stablehlo.reduce_window"(%5, %8) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %27 = stablehlo.maximum %arg3, %arg4 : tensor<f32>
      stablehlo.return %27 : tensor<f32>
    }) : (tensor<2x5x5x4xf32>, tensor<f32>) -> tensor<2x2x2x4xf32>
    %10 = stablehlo.multiply %9, %9 : tensor<2x2x2x4xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x2x2x4xf32>
    %12 = stablehlo.multiply %11, %9 : tensor<2x2x2x4xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.reduce(%10 init: %cst_3) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<2x2x2x4xf32>, tensor<f32>) -> tensor<f32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x2x2x4xf32>
    %15 = stablehlo.multiply %14, %12 : tensor<2x2x2x4xf32>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %16 = stablehlo.pad %5, %cst_5, low = [0, 0, 0, 0], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x5x5x4xf32>, tensor<f32>) -> tensor<2x5x5x4xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = "stablehlo.select_and_scatter"(%16, %15, %cst_6) <{padding = dense<0> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %27 = stablehlo.compare GE, %arg3, %arg4, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %27 : tensor<i1>
    }, {
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %27 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %27 : tensor<f32>
    }) : (tensor<2x5x5x4xf32>, tensor<2x2x2x4xf32>, tensor<f32>) -> tensor<2x5x5x4xf32>
    %18 = stablehlo.slice %17 [0:2, 0:5, 0:5, 0:4] : (tensor<2x5x5x4xf32>) -> tensor<2x5x5x4xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x5x5x4xf32>
    %20 = stablehlo.select %7, %18, %19 : tensor<2x5x5x4xi1>, tensor<2x5x5x4xf32>
    %21 = stablehlo.convolution(%1, %20) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x5x5x8xf32>, tensor<2x5x5x4xf32>) -> tensor<3x3x8x4xf32>
    %22 = stablehlo.reverse %arg1, dims = [0, 1] : tensor<3x3x8x4xf32>
    %23 = stablehlo.convolution(%20, %22) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x5x5x4xf32>, tensor<3x3x8x4xf32>) -> tensor<2x5x5x8xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x5x5x8xf32>
    %25 = stablehlo.select %3, %23, %24 : tensor<2x5x5x8xi1>, tensor<2x5x5x8xf32>
    %26 = stablehlo.convolution(%arg2, %25) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [2, 2], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x9x9x3xf32>, tensor<2x5x5x8xf32>) -> tensor<3x3x3x8xf32>
    return %13, %26, %21 : tensor<f32>, tensor<3x3x3x8xf32>, tensor<3x3x8x4xf32>
  }
  func.func private @relu(%arg0: tensor<2x5x5x8xf32>) -> tensor<2x5x5x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x5x5x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x5x5x8xf32>
    return %1 : tensor<2x5x5x8xf32>
  }
  func.func private @relu_0(%arg0: tensor<2x5x5x4xf32>) -> tensor<2x5x5x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x5x5x4xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x5x5x4xf32>
    return %1 : tensor<2x5x5x4xf32>
  }
}
