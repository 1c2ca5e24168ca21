module @jit_layers attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<3x32x128xf32>, %arg1: tensor<3x128x32xf32>, %arg2: tensor<64x32xf32>) -> (tensor<f32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:4 = stablehlo.while(%iterArg = %arg0, %iterArg_1 = %arg1, %iterArg_2 = %c, %iterArg_3 = %arg2) : tensor<3x32x128xf32>, tensor<3x128x32xf32>, tensor<i32>, tensor<64x32xf32>
    cond {
      %c_4 = stablehlo.constant dense<3> : tensor<i32>
      %4 = stablehlo.compare LT, %iterArg_2, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %4 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_2) : (tensor<3x32x128xf32>, tensor<i32>) -> tensor<32x128xf32>
      %5 = func.call @dynamic_index_in_dim_0(%iterArg_1, %iterArg_2) : (tensor<3x128x32xf32>, tensor<i32>) -> tensor<128x32xf32>
      %6 = func.call @closed_call(%iterArg_3, %4, %5) : (tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>) -> tensor<64x32xf32>
      %c_4 = stablehlo.constant dense<1> : tensor<i32>
      %7 = stablehlo.add %iterArg_2, %c_4 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_1, %7, %6 : tensor<3x32x128xf32>, tensor<3x128x32xf32>, tensor<i32>, tensor<64x32xf32>
    }
    %1 = stablehlo.multiply %0#3, %0#3 : tensor<64x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<64x32xf32>, tensor<f32>) -> tensor<f32>
    %cst_0 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %3 = stablehlo.divide %2, %cst_0 : tensor<f32>
    return %3 : tensor<f32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<3x32x128xf32>, %arg1: tensor<i32>) -> tensor<32x128xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 32, 128] : (tensor<3x32x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x32x128xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x32x128xf32>) -> tensor<32x128xf32>
    return %1 : tensor<32x128xf32>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<3x128x32xf32>, %arg1: tensor<i32>) -> tensor<128x32xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 128, 32] : (tensor<3x128x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x128x32xf32>) -> tensor<128x32xf32>
    return %1 : tensor<128x32xf32>
  }
  func.func private @closed_call(%arg0: tensor<64x32xf32>, %arg1: tensor<32x128xf32>, %arg2: tensor<128x32xf32>) -> tensor<64x32xf32> {
    %0 = sdy.manual_computation(%arg0, %arg1, %arg2) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {"model"}]>, <@mesh, [{"model"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data", "model"} (%arg3: tensor<32x32xf32>, %arg4: tensor<32x32xf32>, %arg5: tensor<32x32xf32>) {
      %3 = stablehlo.dot_general %arg3, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %4 = stablehlo.multiply %3, %3 : tensor<32x32xf32>
      %5 = stablehlo.multiply %4, %3 : tensor<32x32xf32>
      %cst = stablehlo.constant dense<4.471500e-02> : tensor<f32>
      %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %7 = stablehlo.multiply %6, %5 : tensor<32x32xf32>
      %8 = stablehlo.add %3, %7 : tensor<32x32xf32>
      %cst_0 = stablehlo.constant dense<0.797884583> : tensor<f32>
      %9 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %10 = stablehlo.multiply %9, %8 : tensor<32x32xf32>
      %11 = stablehlo.tanh %10 : tensor<32x32xf32>
      %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %13 = stablehlo.add %12, %11 : tensor<32x32xf32>
      %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
      %14 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %15 = stablehlo.multiply %14, %13 : tensor<32x32xf32>
      %16 = stablehlo.multiply %3, %15 : tensor<32x32xf32>
      %17 = stablehlo.dot_general %16, %arg5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %18 = "stablehlo.all_reduce"(%17) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
        %19 = stablehlo.add %arg6, %arg7 : tensor<f32>
        stablehlo.return %19 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      sdy.return %18 : tensor<32x32xf32>
    } : (tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>) -> tensor<64x32xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<64x32xf32>
    %2 = stablehlo.tanh %1 : tensor<64x32xf32>
    return %2 : tensor<64x32xf32>
  }
}
