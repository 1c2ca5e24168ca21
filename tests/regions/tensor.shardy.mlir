module @jit_step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<32x32xf32>, %arg1: tensor<32x32xf32>, %arg2: tensor<32x128xf32>, %arg3: tensor<128x32xf32>, %arg4: tensor<64x32xf32>) -> (tensor<32x32xf32> {jax.result_info = "result[0]['in']"}, tensor<32x32xf32> {jax.result_info = "result[0]['out']"}, tensor<32x128xf32> {jax.result_info = "result[0]['w1']"}, tensor<128x32xf32> {jax.result_info = "result[0]['w2']"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.dot_general %arg4, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
    %1 = stablehlo.tanh %0 : tensor<64x32xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %3 = stablehlo.subtract %2, %1 : tensor<64x32xf32>
    %4:13 = sdy.manual_computation(%1, %arg2, %arg3) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {"model"}]>, <@mesh, [{"model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data"}, {}]>] manual_axes={"data", "model"} (%arg5: tensor<32x32xf32>, %arg6: tensor<32x32xf32>, %arg7: tensor<32x32xf32>) {
      %37 = stablehlo.dot_general %arg5, %arg6, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %38 = stablehlo.multiply %37, %37 : tensor<32x32xf32>
      %39 = stablehlo.multiply %38, %37 : tensor<32x32xf32>
      %40 = stablehlo.multiply %37, %37 : tensor<32x32xf32>
      %cst_9 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
      %41 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %42 = stablehlo.multiply %41, %40 : tensor<32x32xf32>
      %cst_10 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
      %43 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %44 = stablehlo.multiply %43, %39 : tensor<32x32xf32>
      %45 = stablehlo.add %37, %44 : tensor<32x32xf32>
      %cst_11 = stablehlo.constant dense<0.797884583> : tensor<f32>
      %46 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %47 = stablehlo.multiply %46, %45 : tensor<32x32xf32>
      %48 = stablehlo.tanh %47 : tensor<32x32xf32>
      %cst_12 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %49 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %50 = stablehlo.subtract %49, %48 : tensor<32x32xf32>
      %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %51 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %52 = stablehlo.add %51, %48 : tensor<32x32xf32>
      %cst_14 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
      %53 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %54 = stablehlo.multiply %53, %52 : tensor<32x32xf32>
      %55 = stablehlo.multiply %37, %54 : tensor<32x32xf32>
      %56 = stablehlo.dot_general %55, %arg7, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %57 = "stablehlo.all_reduce"(%56) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg8: tensor<f32>, %arg9: tensor<f32>):
        %61 = stablehlo.add %arg8, %arg9 : tensor<f32>
        stablehlo.return %61 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %58 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %59 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %60 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1xf32>
      sdy.return %arg6, %arg5, %42, %58, %59, %48, %50, %60, %54, %37, %arg7, %55, %57 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<1xf32>, tensor<1xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<1xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    } : (tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>) -> (tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<8xf32>, tensor<8xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<8xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<64x32xf32>)
    %5 = stablehlo.add %1, %4#12 : tensor<64x32xf32>
    %6 = stablehlo.dot_general %5, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
    %7 = stablehlo.multiply %6, %6 : tensor<64x32xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %9 = stablehlo.multiply %8, %6 : tensor<64x32xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [0, 1] : (tensor<64x32xf32>, tensor<f32>) -> tensor<f32>
    %cst_2 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %11 = stablehlo.divide %10, %cst_2 : tensor<f32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_4 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %12 = stablehlo.divide %cst_3, %cst_4 : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %14 = stablehlo.multiply %13, %9 : tensor<64x32xf32>
    %15 = stablehlo.dot_general %14, %5, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>
    %16 = stablehlo.transpose %15, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %17 = stablehlo.dot_general %14, %arg1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
    %18:3 = sdy.manual_computation(%17, %4#0, %4#1, %4#2, %4#3, %4#4, %4#5, %4#6, %4#7, %4#8, %4#9, %4#10, %4#11) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {"model"}]>, <@mesh, [{"model"}, {}]>] manual_axes={"data", "model"} (%arg5: tensor<32x32xf32>, %arg6: tensor<32x32xf32>, %arg7: tensor<32x32xf32>, %arg8: tensor<32x32xf32>, %arg9: tensor<1xf32>, %arg10: tensor<1xf32>, %arg11: tensor<32x32xf32>, %arg12: tensor<32x32xf32>, %arg13: tensor<1xf32>, %arg14: tensor<32x32xf32>, %arg15: tensor<32x32xf32>, %arg16: tensor<32x32xf32>, %arg17: tensor<32x32xf32>) {
      %37 = stablehlo.reshape %arg9 : (tensor<1xf32>) -> tensor<f32>
      %38 = stablehlo.reshape %arg10 : (tensor<1xf32>) -> tensor<f32>
      %39 = stablehlo.reshape %arg13 : (tensor<1xf32>) -> tensor<f32>
      %40 = stablehlo.dot_general %arg5, %arg17, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %41 = stablehlo.transpose %40, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %42 = stablehlo.dot_general %arg5, %arg16, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %43 = "stablehlo.all_reduce"(%41) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg18: tensor<f32>, %arg19: tensor<f32>):
        %63 = stablehlo.add %arg18, %arg19 : tensor<f32>
        stablehlo.return %63 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %44 = stablehlo.multiply %arg15, %42 : tensor<32x32xf32>
      %45 = stablehlo.multiply %42, %arg14 : tensor<32x32xf32>
      %46 = stablehlo.broadcast_in_dim %39, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %47 = stablehlo.multiply %46, %44 : tensor<32x32xf32>
      %48 = stablehlo.multiply %47, %arg12 : tensor<32x32xf32>
      %49 = stablehlo.multiply %48, %arg11 : tensor<32x32xf32>
      %50 = stablehlo.add %48, %49 : tensor<32x32xf32>
      %51 = stablehlo.broadcast_in_dim %38, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %52 = stablehlo.multiply %51, %50 : tensor<32x32xf32>
      %53 = stablehlo.add %45, %52 : tensor<32x32xf32>
      %54 = stablehlo.broadcast_in_dim %37, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %55 = stablehlo.multiply %54, %52 : tensor<32x32xf32>
      %56 = stablehlo.multiply %55, %arg8 : tensor<32x32xf32>
      %57 = stablehlo.add %53, %56 : tensor<32x32xf32>
      %58 = stablehlo.dot_general %57, %arg7, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %59 = stablehlo.transpose %58, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %60 = stablehlo.dot_general %57, %arg6, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %61 = "stablehlo.all_reduce"(%59) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg18: tensor<f32>, %arg19: tensor<f32>):
        %63 = stablehlo.add %arg18, %arg19 : tensor<f32>
        stablehlo.return %63 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %62 = "stablehlo.all_reduce"(%60) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg18: tensor<f32>, %arg19: tensor<f32>):
        %63 = stablehlo.add %arg18, %arg19 : tensor<f32>
        stablehlo.return %63 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      sdy.return %62, %61, %43 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    } : (tensor<64x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<8xf32>, tensor<8xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<8xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>) -> (tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>)
    %19 = stablehlo.add %17, %18#0 : tensor<64x32xf32>
    %20 = stablehlo.multiply %19, %3 : tensor<64x32xf32>
    %21 = stablehlo.multiply %20, %1 : tensor<64x32xf32>
    %22 = stablehlo.add %20, %21 : tensor<64x32xf32>
    %23 = stablehlo.dot_general %22, %arg4, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>
    %24 = stablehlo.transpose %23, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %cst_5 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %26 = stablehlo.multiply %25, %24 : tensor<32x32xf32>
    %27 = stablehlo.subtract %arg0, %26 : tensor<32x32xf32>
    %cst_6 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %29 = stablehlo.multiply %28, %16 : tensor<32x32xf32>
    %30 = stablehlo.subtract %arg1, %29 : tensor<32x32xf32>
    %cst_7 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<32x128xf32>
    %32 = stablehlo.multiply %31, %18#1 : tensor<32x128xf32>
    %33 = stablehlo.subtract %arg2, %32 : tensor<32x128xf32>
    %cst_8 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %34 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<128x32xf32>
    %35 = stablehlo.multiply %34, %18#2 : tensor<128x32xf32>
    %36 = stablehlo.subtract %arg3, %35 : tensor<128x32xf32>
    return %27, %30, %33, %36, %11 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>, tensor<f32>
  }
}
