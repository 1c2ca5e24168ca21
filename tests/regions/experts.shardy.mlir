module @jit_step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<8x32x32xf32>, %arg1: tensor<64x8x32xf32>) -> (tensor<8x32x32xf32> {jax.result_info = "result[0]"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.sine %arg1 : tensor<64x8x32xf32>
    %1:3 = sdy.manual_computation(%0, %arg0) in_shardings=[<@mesh, [{"data", "model"}, {}, {}]>, <@mesh, [{"model"}, {}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}, {}]>, <@mesh, [{"data", "model"}, {}, {}]>, <@mesh, [{"data", "model"}, {}, {}]>] manual_axes={"data", "model"} (%arg2: tensor<8x8x32xf32>, %arg3: tensor<2x32x32xf32>) {
      %12 = "stablehlo.all_to_all"(%arg2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, split_count = 4 : i64, split_dimension = 1 : i64}> : (tensor<8x8x32xf32>) -> tensor<32x2x32xf32>
      %13 = stablehlo.dot_general %arg3, %12, batching_dims = [0] x [1], contracting_dims = [1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x32x32xf32>, tensor<32x2x32xf32>) -> tensor<2x32x32xf32>
      %14 = stablehlo.transpose %13, dims = [2, 0, 1] : (tensor<2x32x32xf32>) -> tensor<32x2x32xf32>
      %15 = func.call @relu(%14) : (tensor<32x2x32xf32>) -> tensor<32x2x32xf32>
      %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %16 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<32x2x32xf32>
      %17 = stablehlo.compare GT, %14, %16, FLOAT : (tensor<32x2x32xf32>, tensor<32x2x32xf32>) -> tensor<32x2x32xi1>
      %18 = "stablehlo.all_to_all"(%15) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 1 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, split_count = 4 : i64, split_dimension = 0 : i64}> : (tensor<32x2x32xf32>) -> tensor<8x8x32xf32>
      sdy.return %12, %17, %18 : tensor<32x2x32xf32>, tensor<32x2x32xi1>, tensor<8x8x32xf32>
    } : (tensor<64x8x32xf32>, tensor<8x32x32xf32>) -> (tensor<256x2x32xf32>, tensor<256x2x32xi1>, tensor<64x8x32xf32>)
    %2 = stablehlo.multiply %1#2, %1#2 : tensor<64x8x32xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x8x32xf32>
    %4 = stablehlo.multiply %3, %1#2 : tensor<64x8x32xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.reduce(%2 init: %cst_0) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<64x8x32xf32>, tensor<f32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<64x8x32xf32>
    %7 = stablehlo.multiply %6, %4 : tensor<64x8x32xf32>
    %8 = sdy.manual_computation(%7, %1#0, %1#1) in_shardings=[<@mesh, [{"data", "model"}, {}, {}]>, <@mesh, [{"data", "model"}, {}, {}]>, <@mesh, [{"data", "model"}, {}, {}]>] out_shardings=[<@mesh, [{"model"}, {}, {}]>] manual_axes={"data", "model"} (%arg2: tensor<8x8x32xf32>, %arg3: tensor<32x2x32xf32>, %arg4: tensor<32x2x32xi1>) {
      %12 = "stablehlo.all_to_all"(%arg2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, split_count = 4 : i64, split_dimension = 1 : i64}> : (tensor<8x8x32xf32>) -> tensor<32x2x32xf32>
      %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<32x2x32xf32>
      %14 = stablehlo.select %arg4, %12, %13 : tensor<32x2x32xi1>, tensor<32x2x32xf32>
      %15 = stablehlo.transpose %14, dims = [1, 2, 0] : (tensor<32x2x32xf32>) -> tensor<2x32x32xf32>
      %16 = stablehlo.dot_general %15, %arg3, batching_dims = [0] x [1], contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x32x32xf32>, tensor<32x2x32xf32>) -> tensor<2x32x32xf32>
      %17 = stablehlo.transpose %16, dims = [0, 2, 1] : (tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
      %18 = "stablehlo.all_reduce"(%17) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
        %19 = stablehlo.add %arg5, %arg6 : tensor<f32>
        stablehlo.return %19 : tensor<f32>
      }) : (tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
      sdy.return %18 : tensor<2x32x32xf32>
    } : (tensor<64x8x32xf32>, tensor<256x2x32xf32>, tensor<256x2x32xi1>) -> tensor<8x32x32xf32>
    %cst_2 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x32x32xf32>
    %10 = stablehlo.multiply %9, %8 : tensor<8x32x32xf32>
    %11 = stablehlo.subtract %arg0, %10 : tensor<8x32x32xf32>
    return %11, %5 : tensor<8x32x32xf32>, tensor<f32>
  }
  func.func private @relu(%arg0: tensor<32x2x32xf32>) -> tensor<32x2x32xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<32x2x32xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<32x2x32xf32>
    return %1 : tensor<32x2x32xf32>
  }
}
