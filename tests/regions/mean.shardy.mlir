module @jit__lambda attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=8]> {stablehlo.mesh = {axes = [{name = "data", size = 8 : i64}]}}
  func.func public @main(%arg0: tensor<32x32xf32>, %arg1: tensor<64x32xf32>) -> (tensor<32x32xf32> {jax.result_info = "result[0]"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{}, {}]>, <@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data"} (%arg2: tensor<32x32xf32>, %arg3: tensor<8x32xf32>) {
      %5 = stablehlo.dot_general %arg3, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
      %6 = stablehlo.tanh %5 : tensor<8x32xf32>
      %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %7 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
      %8 = stablehlo.subtract %7, %6 : tensor<8x32xf32>
      %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
      %10 = stablehlo.multiply %9, %6 : tensor<8x32xf32>
      %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %cst_3 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
      %11 = stablehlo.divide %cst_2, %cst_3 : tensor<f32>
      %12 = stablehlo.broadcast_in_dim %11, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
      %13 = stablehlo.multiply %12, %10 : tensor<8x32xf32>
      %14 = stablehlo.multiply %13, %8 : tensor<8x32xf32>
      %15 = stablehlo.multiply %14, %6 : tensor<8x32xf32>
      %16 = stablehlo.add %14, %15 : tensor<8x32xf32>
      %17 = stablehlo.dot_general %16, %arg3, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
      %18 = stablehlo.transpose %17, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %19 = "stablehlo.all_reduce"(%18) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
      ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
        %22 = stablehlo.add %arg4, %arg5 : tensor<f32>
        stablehlo.return %22 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %cst_4 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
      %20 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %21 = stablehlo.divide %19, %20 : tensor<32x32xf32>
      sdy.return %21 : tensor<32x32xf32>
    } : (tensor<32x32xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>
    %cst = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %2 = stablehlo.multiply %1, %0 : tensor<32x32xf32>
    %3 = stablehlo.subtract %arg0, %2 : tensor<32x32xf32>
    %4 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{}, {}]>, <@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, []>] manual_axes={"data"} (%arg2: tensor<32x32xf32>, %arg3: tensor<8x32xf32>) {
      %5 = stablehlo.dot_general %arg3, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
      %6 = stablehlo.tanh %5 : tensor<8x32xf32>
      %7 = stablehlo.multiply %6, %6 : tensor<8x32xf32>
      %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %8 = stablehlo.reduce(%7 init: %cst_0) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<f32>
      %cst_1 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
      %9 = stablehlo.divide %8, %cst_1 : tensor<f32>
      %10 = "stablehlo.all_reduce"(%9) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
      ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
        %12 = stablehlo.add %arg4, %arg5 : tensor<f32>
        stablehlo.return %12 : tensor<f32>
      }) : (tensor<f32>) -> tensor<f32>
      %cst_2 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
      %11 = stablehlo.divide %10, %cst_2 : tensor<f32>
      sdy.return %11 : tensor<f32>
    } : (tensor<32x32xf32>, tensor<64x32xf32>) -> tensor<f32>
    return %3, %4 : tensor<32x32xf32>, tensor<f32>
  }
}
