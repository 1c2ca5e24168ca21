module @jit_step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=8]> {stablehlo.mesh = {axes = [{name = "data", size = 8 : i64}]}}
  func.func public @main(%arg0: tensor<32x32xf32>, %arg1: tensor<64x32xf32>) -> (tensor<32x32xf32> {jax.result_info = "result[0]"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0 = sdy.manual_computation(%arg1, %arg0) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data"} (%arg2: tensor<8x32xf32>, %arg3: tensor<4x32xf32>) {
      %19 = "stablehlo.all_gather"(%arg3) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> : (tensor<4x32xf32>) -> tensor<32x32xf32>
      %20 = stablehlo.dot_general %arg2, %19, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
      sdy.return %20 : tensor<8x32xf32>
    } : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
    %1 = stablehlo.tanh %0 : tensor<64x32xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %3 = stablehlo.subtract %2, %1 : tensor<64x32xf32>
    %4 = stablehlo.multiply %1, %1 : tensor<64x32xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %6 = stablehlo.multiply %5, %1 : tensor<64x32xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%4 init: %cst_1) applies stablehlo.add across dimensions = [0, 1] : (tensor<64x32xf32>, tensor<f32>) -> tensor<f32>
    %cst_2 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %8 = stablehlo.divide %7, %cst_2 : tensor<f32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_4 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %9 = stablehlo.divide %cst_3, %cst_4 : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %11 = stablehlo.multiply %10, %6 : tensor<64x32xf32>
    %12 = stablehlo.multiply %11, %3 : tensor<64x32xf32>
    %13 = stablehlo.multiply %12, %1 : tensor<64x32xf32>
    %14 = stablehlo.add %12, %13 : tensor<64x32xf32>
    %15 = sdy.manual_computation(%14, %arg1) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data"} (%arg2: tensor<8x32xf32>, %arg3: tensor<8x32xf32>) {
      %19 = stablehlo.dot_general %arg2, %arg3, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
      %20 = stablehlo.transpose %19, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %21 = "stablehlo.reduce_scatter"(%20) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
      ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
        %22 = stablehlo.add %arg4, %arg5 : tensor<f32>
        stablehlo.return %22 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<4x32xf32>
      sdy.return %21 : tensor<4x32xf32>
    } : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>
    %cst_5 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %17 = stablehlo.multiply %16, %15 : tensor<32x32xf32>
    %18 = stablehlo.subtract %arg0, %17 : tensor<32x32xf32>
    return %18, %8 : tensor<32x32xf32>, tensor<f32>
  }
}
