module @jit_step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<3x32x128xf32>, %arg1: tensor<3x128x32xf32>, %arg2: tensor<64x32xf32>) -> (tensor<3x32x128xf32> {jax.result_info = "result[0]['w1']"}, tensor<3x128x32xf32> {jax.result_info = "result[0]['w2']"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0:4 = sdy.manual_computation() in_shardings=[] out_shardings=[<@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>] manual_axes={"data", "model"} () {
      %cst_10 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
      %cst_11 = stablehlo.constant dense<0.797884583> : tensor<f32>
      %cst_12 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %cst_13 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
      %20 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %21 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %22 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %23 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1xf32>
      sdy.return %20, %21, %22, %23 : tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
    } : () -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x64x32xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %2:9 = stablehlo.while(%iterArg = %arg0, %iterArg_10 = %arg1, %iterArg_11 = %0#0, %iterArg_12 = %0#1, %iterArg_13 = %0#2, %iterArg_14 = %0#3, %iterArg_15 = %c, %iterArg_16 = %arg2, %iterArg_17 = %1) : tensor<3x32x128xf32>, tensor<3x128x32xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<i32>, tensor<64x32xf32>, tensor<3x64x32xf32>
    cond {
      %c_18 = stablehlo.constant dense<3> : tensor<i32>
      %20 = stablehlo.compare LT, %iterArg_15, %c_18, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %20 : tensor<i1>
    } do {
      %20 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_15) : (tensor<3x32x128xf32>, tensor<i32>) -> tensor<32x128xf32>
      %21 = func.call @dynamic_index_in_dim_0(%iterArg_10, %iterArg_15) : (tensor<3x128x32xf32>, tensor<i32>) -> tensor<128x32xf32>
      %22:2 = func.call @closed_call(%iterArg_11, %iterArg_12, %iterArg_13, %iterArg_14, %iterArg_16, %20, %21) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>) -> (tensor<64x32xf32>, tensor<64x32xf32>)
      %23 = func.call @dynamic_update_index_in_dim(%iterArg_17, %22#1, %iterArg_15) : (tensor<3x64x32xf32>, tensor<64x32xf32>, tensor<i32>) -> tensor<3x64x32xf32>
      %c_18 = stablehlo.constant dense<1> : tensor<i32>
      %24 = stablehlo.add %iterArg_15, %c_18 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_10, %iterArg_11, %iterArg_12, %iterArg_13, %iterArg_14, %24, %22#0, %23 : tensor<3x32x128xf32>, tensor<3x128x32xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<i32>, tensor<64x32xf32>, tensor<3x64x32xf32>
    }
    %3 = stablehlo.multiply %2#7, %2#7 : tensor<64x32xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %5 = stablehlo.multiply %4, %2#7 : tensor<64x32xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%3 init: %cst_1) applies stablehlo.add across dimensions = [0, 1] : (tensor<64x32xf32>, tensor<f32>) -> tensor<f32>
    %cst_2 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %7 = stablehlo.divide %6, %cst_2 : tensor<f32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_4 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %8 = stablehlo.divide %cst_3, %cst_4 : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %10 = stablehlo.multiply %9, %5 : tensor<64x32xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<3x32x128xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<3x128x32xf32>
    %c_7 = stablehlo.constant dense<0> : tensor<i32>
    %13:7 = stablehlo.while(%iterArg = %2#8, %iterArg_10 = %arg0, %iterArg_11 = %arg1, %iterArg_12 = %c_7, %iterArg_13 = %10, %iterArg_14 = %11, %iterArg_15 = %12) : tensor<3x64x32xf32>, tensor<3x32x128xf32>, tensor<3x128x32xf32>, tensor<i32>, tensor<64x32xf32>, tensor<3x32x128xf32>, tensor<3x128x32xf32>
    cond {
      %c_16 = stablehlo.constant dense<3> : tensor<i32>
      %20 = stablehlo.compare LT, %iterArg_12, %c_16, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %20 : tensor<i1>
    } do {
      %c_16 = stablehlo.constant dense<3> : tensor<i32>
      %20 = stablehlo.subtract %c_16, %iterArg_12 : tensor<i32>
      %c_17 = stablehlo.constant dense<1> : tensor<i32>
      %21 = stablehlo.subtract %20, %c_17 : tensor<i32>
      %22 = func.call @dynamic_index_in_dim_1(%iterArg, %21) : (tensor<3x64x32xf32>, tensor<i32>) -> tensor<64x32xf32>
      %23 = func.call @dynamic_index_in_dim(%iterArg_10, %21) : (tensor<3x32x128xf32>, tensor<i32>) -> tensor<32x128xf32>
      %24 = func.call @dynamic_index_in_dim_0(%iterArg_11, %21) : (tensor<3x128x32xf32>, tensor<i32>) -> tensor<128x32xf32>
      %25:3 = func.call @closed_call_2(%iterArg_13, %22, %23, %24) : (tensor<64x32xf32>, tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>) -> (tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>)
      %26 = func.call @dynamic_update_index_in_dim_3(%iterArg_14, %25#1, %21) : (tensor<3x32x128xf32>, tensor<32x128xf32>, tensor<i32>) -> tensor<3x32x128xf32>
      %27 = func.call @dynamic_update_index_in_dim_4(%iterArg_15, %25#2, %21) : (tensor<3x128x32xf32>, tensor<128x32xf32>, tensor<i32>) -> tensor<3x128x32xf32>
      %c_18 = stablehlo.constant dense<1> : tensor<i32>
      %28 = stablehlo.add %iterArg_12, %c_18 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_10, %iterArg_11, %28, %25#0, %26, %27 : tensor<3x64x32xf32>, tensor<3x32x128xf32>, tensor<3x128x32xf32>, tensor<i32>, tensor<64x32xf32>, tensor<3x32x128xf32>, tensor<3x128x32xf32>
    }
    %cst_8 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<3x32x128xf32>
    %15 = stablehlo.multiply %14, %13#5 : tensor<3x32x128xf32>
    %16 = stablehlo.subtract %arg0, %15 : tensor<3x32x128xf32>
    %cst_9 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<3x128x32xf32>
    %18 = stablehlo.multiply %17, %13#6 : tensor<3x128x32xf32>
    %19 = stablehlo.subtract %arg1, %18 : tensor<3x128x32xf32>
    return %16, %19, %7 : tensor<3x32x128xf32>, tensor<3x128x32xf32>, tensor<f32>
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
  func.func private @closed_call(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>, %arg3: tensor<8xf32>, %arg4: tensor<64x32xf32>, %arg5: tensor<32x128xf32>, %arg6: tensor<128x32xf32>) -> (tensor<64x32xf32>, tensor<64x32xf32>) {
    %0 = sdy.manual_computation(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6) in_shardings=[<@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{}, {"model"}]>, <@mesh, [{"model"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data", "model"} (%arg7: tensor<1xf32>, %arg8: tensor<1xf32>, %arg9: tensor<1xf32>, %arg10: tensor<1xf32>, %arg11: tensor<32x32xf32>, %arg12: tensor<32x32xf32>, %arg13: tensor<32x32xf32>) {
      %3 = stablehlo.reshape %arg7 : (tensor<1xf32>) -> tensor<f32>
      %4 = stablehlo.reshape %arg8 : (tensor<1xf32>) -> tensor<f32>
      %5 = stablehlo.reshape %arg9 : (tensor<1xf32>) -> tensor<f32>
      %6 = stablehlo.reshape %arg10 : (tensor<1xf32>) -> tensor<f32>
      %7 = stablehlo.dot_general %arg11, %arg12, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %8 = stablehlo.multiply %7, %7 : tensor<32x32xf32>
      %9 = stablehlo.multiply %8, %7 : tensor<32x32xf32>
      %10 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %11 = stablehlo.multiply %10, %9 : tensor<32x32xf32>
      %12 = stablehlo.add %7, %11 : tensor<32x32xf32>
      %13 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %14 = stablehlo.multiply %13, %12 : tensor<32x32xf32>
      %15 = stablehlo.tanh %14 : tensor<32x32xf32>
      %16 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %17 = stablehlo.add %16, %15 : tensor<32x32xf32>
      %18 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %19 = stablehlo.multiply %18, %17 : tensor<32x32xf32>
      %20 = stablehlo.multiply %7, %19 : tensor<32x32xf32>
      %21 = stablehlo.dot_general %20, %arg13, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %22 = "stablehlo.all_reduce"(%21) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg14: tensor<f32>, %arg15: tensor<f32>):
        %23 = stablehlo.add %arg14, %arg15 : tensor<f32>
        stablehlo.return %23 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      sdy.return %22 : tensor<32x32xf32>
    } : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>) -> tensor<64x32xf32>
    %1 = stablehlo.add %arg4, %0 : tensor<64x32xf32>
    %2 = stablehlo.tanh %1 : tensor<64x32xf32>
    return %2, %arg4 : tensor<64x32xf32>, tensor<64x32xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<3x64x32xf32>, %arg1: tensor<64x32xf32>, %arg2: tensor<i32>) -> tensor<3x64x32xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<64x32xf32>) -> tensor<1x64x32xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x64x32xf32>, tensor<1x64x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x64x32xf32>
    return %1 : tensor<3x64x32xf32>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<3x64x32xf32>, %arg1: tensor<i32>) -> tensor<64x32xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 64, 32] : (tensor<3x64x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x64x32xf32>) -> tensor<64x32xf32>
    return %1 : tensor<64x32xf32>
  }
  func.func private @closed_call_2(%arg0: tensor<64x32xf32>, %arg1: tensor<64x32xf32>, %arg2: tensor<32x128xf32>, %arg3: tensor<128x32xf32>) -> (tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>) {
    %0:4 = stablehlo.optimization_barrier %arg1, %arg2, %arg3, %arg0 : tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>, tensor<64x32xf32>
    %1:13 = sdy.manual_computation(%0#0, %0#1, %0#2) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {"model"}]>, <@mesh, [{"model"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%arg4: tensor<32x32xf32>, %arg5: tensor<32x32xf32>, %arg6: tensor<32x32xf32>) {
      %11 = stablehlo.dot_general %arg4, %arg5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %12 = stablehlo.multiply %11, %11 : tensor<32x32xf32>
      %13 = stablehlo.multiply %12, %11 : tensor<32x32xf32>
      %14 = stablehlo.multiply %11, %11 : tensor<32x32xf32>
      %cst_0 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
      %15 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %16 = stablehlo.multiply %15, %14 : tensor<32x32xf32>
      %cst_1 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
      %17 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %18 = stablehlo.multiply %17, %13 : tensor<32x32xf32>
      %19 = stablehlo.add %11, %18 : tensor<32x32xf32>
      %cst_2 = stablehlo.constant dense<0.797884583> : tensor<f32>
      %20 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %21 = stablehlo.multiply %20, %19 : tensor<32x32xf32>
      %22 = stablehlo.tanh %21 : tensor<32x32xf32>
      %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %23 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %24 = stablehlo.subtract %23, %22 : tensor<32x32xf32>
      %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %25 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %26 = stablehlo.add %25, %22 : tensor<32x32xf32>
      %cst_5 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
      %27 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %28 = stablehlo.multiply %27, %26 : tensor<32x32xf32>
      %29 = stablehlo.multiply %11, %28 : tensor<32x32xf32>
      %30 = stablehlo.dot_general %29, %arg6, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %31 = "stablehlo.all_reduce"(%30) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
        %35 = stablehlo.add %arg7, %arg8 : tensor<f32>
        stablehlo.return %35 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %32 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %33 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %34 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1xf32>
      sdy.return %31, %arg5, %arg4, %28, %11, %32, %33, %34, %16, %22, %24, %arg6, %29 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    } : (tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>) -> (tensor<64x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>)
    %2 = stablehlo.add %0#0, %1#0 : tensor<64x32xf32>
    %3 = stablehlo.tanh %2 : tensor<64x32xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %5 = stablehlo.subtract %4, %3 : tensor<64x32xf32>
    %6 = stablehlo.multiply %0#3, %5 : tensor<64x32xf32>
    %7 = stablehlo.multiply %6, %3 : tensor<64x32xf32>
    %8 = stablehlo.add %6, %7 : tensor<64x32xf32>
    %9:3 = sdy.manual_computation(%8, %1#1, %1#2, %1#3, %1#4, %1#5, %1#6, %1#7, %1#8, %1#9, %1#10, %1#11, %1#12) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {"model"}]>, <@mesh, [{"model"}, {}]>] manual_axes={"data", "model"} (%arg4: tensor<32x32xf32>, %arg5: tensor<32x32xf32>, %arg6: tensor<32x32xf32>, %arg7: tensor<32x32xf32>, %arg8: tensor<32x32xf32>, %arg9: tensor<1xf32>, %arg10: tensor<1xf32>, %arg11: tensor<1xf32>, %arg12: tensor<32x32xf32>, %arg13: tensor<32x32xf32>, %arg14: tensor<32x32xf32>, %arg15: tensor<32x32xf32>, %arg16: tensor<32x32xf32>) {
      %11 = stablehlo.reshape %arg9 : (tensor<1xf32>) -> tensor<f32>
      %12 = stablehlo.reshape %arg10 : (tensor<1xf32>) -> tensor<f32>
      %13 = stablehlo.reshape %arg11 : (tensor<1xf32>) -> tensor<f32>
      %14 = stablehlo.dot_general %arg4, %arg16, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %15 = stablehlo.transpose %14, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %16 = stablehlo.dot_general %arg4, %arg15, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %17 = "stablehlo.all_reduce"(%15) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg17: tensor<f32>, %arg18: tensor<f32>):
        %37 = stablehlo.add %arg17, %arg18 : tensor<f32>
        stablehlo.return %37 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %18 = stablehlo.multiply %arg8, %16 : tensor<32x32xf32>
      %19 = stablehlo.multiply %16, %arg7 : tensor<32x32xf32>
      %20 = stablehlo.broadcast_in_dim %11, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %21 = stablehlo.multiply %20, %18 : tensor<32x32xf32>
      %22 = stablehlo.multiply %21, %arg14 : tensor<32x32xf32>
      %23 = stablehlo.multiply %22, %arg13 : tensor<32x32xf32>
      %24 = stablehlo.add %22, %23 : tensor<32x32xf32>
      %25 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %26 = stablehlo.multiply %25, %24 : tensor<32x32xf32>
      %27 = stablehlo.add %19, %26 : tensor<32x32xf32>
      %28 = stablehlo.broadcast_in_dim %13, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %29 = stablehlo.multiply %28, %26 : tensor<32x32xf32>
      %30 = stablehlo.multiply %29, %arg12 : tensor<32x32xf32>
      %31 = stablehlo.add %27, %30 : tensor<32x32xf32>
      %32 = stablehlo.dot_general %31, %arg6, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %33 = stablehlo.transpose %32, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %34 = stablehlo.dot_general %31, %arg5, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %35 = "stablehlo.all_reduce"(%33) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg17: tensor<f32>, %arg18: tensor<f32>):
        %37 = stablehlo.add %arg17, %arg18 : tensor<f32>
        stablehlo.return %37 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %36 = "stablehlo.all_reduce"(%34) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg17: tensor<f32>, %arg18: tensor<f32>):
        %37 = stablehlo.add %arg17, %arg18 : tensor<f32>
        stablehlo.return %37 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      sdy.return %36, %35, %17 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    } : (tensor<64x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>) -> (tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>)
    %10 = stablehlo.add %8, %9#0 : tensor<64x32xf32>
    return %10, %9#1, %9#2 : tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>
  }
  func.func private @dynamic_update_index_in_dim_3(%arg0: tensor<3x32x128xf32>, %arg1: tensor<32x128xf32>, %arg2: tensor<i32>) -> tensor<3x32x128xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<32x128xf32>) -> tensor<1x32x128xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x32x128xf32>, tensor<1x32x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x32x128xf32>
    return %1 : tensor<3x32x128xf32>
  }
  func.func private @dynamic_update_index_in_dim_4(%arg0: tensor<3x128x32xf32>, %arg1: tensor<128x32xf32>, %arg2: tensor<i32>) -> tensor<3x128x32xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<128x32xf32>) -> tensor<1x128x32xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x128x32xf32>, tensor<1x128x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x128x32xf32>
    return %1 : tensor<3x128x32xf32>
  }
}
