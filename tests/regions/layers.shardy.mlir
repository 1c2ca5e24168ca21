module @jit_step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<3x32x128xf32>, %arg1: tensor<3x128x32xf32>, %arg2: tensor<64x32xf32>) -> (tensor<3x32x128xf32> {jax.result_info = "result[0]['w1']"}, tensor<3x128x32xf32> {jax.result_info = "result[0]['w2']"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0:9 = sdy.manual_computation() in_shardings=[] out_shardings=[<@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>] manual_axes={"data", "model"} () {
      %cst_21 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
      %cst_22 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
      %cst_23 = stablehlo.constant dense<0.797884583> : tensor<f32>
      %cst_24 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %cst_25 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %cst_26 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
      %30 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %31 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %32 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %33 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %34 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %35 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %36 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %37 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %38 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<1xf32>
      sdy.return %30, %31, %32, %33, %34, %35, %36, %37, %38 : tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
    } : () -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x256x32xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x256x32xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<3x256x32xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<3x256x32xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<3x256x32xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<3x256x32xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<3x256x32xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<3x256x32xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<3x256x32xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<3x64x32xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<3x64x32xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %12:22 = stablehlo.while(%iterArg = %arg0, %iterArg_21 = %arg1, %iterArg_22 = %0#3, %iterArg_23 = %0#4, %iterArg_24 = %0#5, %iterArg_25 = %0#6, %iterArg_26 = %0#7, %iterArg_27 = %0#8, %iterArg_28 = %cst, %iterArg_29 = %c, %iterArg_30 = %arg2, %iterArg_31 = %1, %iterArg_32 = %2, %iterArg_33 = %3, %iterArg_34 = %4, %iterArg_35 = %5, %iterArg_36 = %6, %iterArg_37 = %7, %iterArg_38 = %8, %iterArg_39 = %9, %iterArg_40 = %10, %iterArg_41 = %11) : tensor<3x32x128xf32>, tensor<3x128x32xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i32>, tensor<64x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x64x32xf32>, tensor<3x64x32xf32>
    cond {
      %c_42 = stablehlo.constant dense<3> : tensor<i32>
      %30 = stablehlo.compare LT, %iterArg_29, %c_42, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %30 : tensor<i1>
    } do {
      %30 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_29) : (tensor<3x32x128xf32>, tensor<i32>) -> tensor<32x128xf32>
      %31 = func.call @dynamic_index_in_dim_0(%iterArg_21, %iterArg_29) : (tensor<3x128x32xf32>, tensor<i32>) -> tensor<128x32xf32>
      %32:12 = func.call @closed_call(%iterArg_22, %iterArg_23, %iterArg_24, %iterArg_25, %iterArg_26, %iterArg_27, %iterArg_28, %iterArg_30, %30, %31) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>) -> (tensor<64x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<64x32xf32>, tensor<64x32xf32>)
      %33 = func.call @dynamic_update_index_in_dim(%iterArg_31, %32#1, %iterArg_29) : (tensor<3x256x32xf32>, tensor<256x32xf32>, tensor<i32>) -> tensor<3x256x32xf32>
      %34 = func.call @dynamic_update_index_in_dim(%iterArg_32, %32#2, %iterArg_29) : (tensor<3x256x32xf32>, tensor<256x32xf32>, tensor<i32>) -> tensor<3x256x32xf32>
      %35 = func.call @dynamic_update_index_in_dim(%iterArg_33, %32#3, %iterArg_29) : (tensor<3x256x32xf32>, tensor<256x32xf32>, tensor<i32>) -> tensor<3x256x32xf32>
      %36 = func.call @dynamic_update_index_in_dim(%iterArg_34, %32#4, %iterArg_29) : (tensor<3x256x32xf32>, tensor<256x32xf32>, tensor<i32>) -> tensor<3x256x32xf32>
      %37 = func.call @dynamic_update_index_in_dim(%iterArg_35, %32#5, %iterArg_29) : (tensor<3x256x32xf32>, tensor<256x32xf32>, tensor<i32>) -> tensor<3x256x32xf32>
      %38 = func.call @dynamic_update_index_in_dim(%iterArg_36, %32#6, %iterArg_29) : (tensor<3x256x32xf32>, tensor<256x32xf32>, tensor<i32>) -> tensor<3x256x32xf32>
      %39 = func.call @dynamic_update_index_in_dim(%iterArg_37, %32#7, %iterArg_29) : (tensor<3x256x32xf32>, tensor<256x32xf32>, tensor<i32>) -> tensor<3x256x32xf32>
      %40 = func.call @dynamic_update_index_in_dim(%iterArg_38, %32#8, %iterArg_29) : (tensor<3x256x32xf32>, tensor<256x32xf32>, tensor<i32>) -> tensor<3x256x32xf32>
      %41 = func.call @dynamic_update_index_in_dim(%iterArg_39, %32#9, %iterArg_29) : (tensor<3x256x32xf32>, tensor<256x32xf32>, tensor<i32>) -> tensor<3x256x32xf32>
      %42 = func.call @dynamic_update_index_in_dim_1(%iterArg_40, %32#10, %iterArg_29) : (tensor<3x64x32xf32>, tensor<64x32xf32>, tensor<i32>) -> tensor<3x64x32xf32>
      %43 = func.call @dynamic_update_index_in_dim_1(%iterArg_41, %32#11, %iterArg_29) : (tensor<3x64x32xf32>, tensor<64x32xf32>, tensor<i32>) -> tensor<3x64x32xf32>
      %c_42 = stablehlo.constant dense<1> : tensor<i32>
      %44 = stablehlo.add %iterArg_29, %c_42 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_21, %iterArg_22, %iterArg_23, %iterArg_24, %iterArg_25, %iterArg_26, %iterArg_27, %iterArg_28, %44, %32#0, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43 : tensor<3x32x128xf32>, tensor<3x128x32xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i32>, tensor<64x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x64x32xf32>, tensor<3x64x32xf32>
    }
    %13 = stablehlo.multiply %12#10, %12#10 : tensor<64x32xf32>
    %cst_11 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %15 = stablehlo.multiply %14, %12#10 : tensor<64x32xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %16 = stablehlo.reduce(%13 init: %cst_12) applies stablehlo.add across dimensions = [0, 1] : (tensor<64x32xf32>, tensor<f32>) -> tensor<f32>
    %cst_13 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %17 = stablehlo.divide %16, %cst_13 : tensor<f32>
    %cst_14 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_15 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %18 = stablehlo.divide %cst_14, %cst_15 : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %20 = stablehlo.multiply %19, %15 : tensor<64x32xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<3x32x128xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<3x128x32xf32>
    %c_18 = stablehlo.constant dense<0> : tensor<i32>
    %23:18 = stablehlo.while(%iterArg = %12#11, %iterArg_21 = %12#12, %iterArg_22 = %12#13, %iterArg_23 = %12#14, %iterArg_24 = %12#15, %iterArg_25 = %12#16, %iterArg_26 = %12#17, %iterArg_27 = %12#18, %iterArg_28 = %12#19, %iterArg_29 = %12#20, %iterArg_30 = %12#21, %iterArg_31 = %0#0, %iterArg_32 = %0#1, %iterArg_33 = %0#2, %iterArg_34 = %c_18, %iterArg_35 = %20, %iterArg_36 = %21, %iterArg_37 = %22) : tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x64x32xf32>, tensor<3x64x32xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<i32>, tensor<64x32xf32>, tensor<3x32x128xf32>, tensor<3x128x32xf32>
    cond {
      %c_38 = stablehlo.constant dense<3> : tensor<i32>
      %30 = stablehlo.compare LT, %iterArg_34, %c_38, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %30 : tensor<i1>
    } do {
      %c_38 = stablehlo.constant dense<3> : tensor<i32>
      %30 = stablehlo.subtract %c_38, %iterArg_34 : tensor<i32>
      %c_39 = stablehlo.constant dense<1> : tensor<i32>
      %31 = stablehlo.subtract %30, %c_39 : tensor<i32>
      %32 = func.call @dynamic_index_in_dim_2(%iterArg, %31) : (tensor<3x256x32xf32>, tensor<i32>) -> tensor<256x32xf32>
      %33 = func.call @dynamic_index_in_dim_2(%iterArg_21, %31) : (tensor<3x256x32xf32>, tensor<i32>) -> tensor<256x32xf32>
      %34 = func.call @dynamic_index_in_dim_2(%iterArg_22, %31) : (tensor<3x256x32xf32>, tensor<i32>) -> tensor<256x32xf32>
      %35 = func.call @dynamic_index_in_dim_2(%iterArg_23, %31) : (tensor<3x256x32xf32>, tensor<i32>) -> tensor<256x32xf32>
      %36 = func.call @dynamic_index_in_dim_2(%iterArg_24, %31) : (tensor<3x256x32xf32>, tensor<i32>) -> tensor<256x32xf32>
      %37 = func.call @dynamic_index_in_dim_2(%iterArg_25, %31) : (tensor<3x256x32xf32>, tensor<i32>) -> tensor<256x32xf32>
      %38 = func.call @dynamic_index_in_dim_2(%iterArg_26, %31) : (tensor<3x256x32xf32>, tensor<i32>) -> tensor<256x32xf32>
      %39 = func.call @dynamic_index_in_dim_2(%iterArg_27, %31) : (tensor<3x256x32xf32>, tensor<i32>) -> tensor<256x32xf32>
      %40 = func.call @dynamic_index_in_dim_2(%iterArg_28, %31) : (tensor<3x256x32xf32>, tensor<i32>) -> tensor<256x32xf32>
      %41 = func.call @dynamic_index_in_dim_3(%iterArg_29, %31) : (tensor<3x64x32xf32>, tensor<i32>) -> tensor<64x32xf32>
      %42 = func.call @dynamic_index_in_dim_3(%iterArg_30, %31) : (tensor<3x64x32xf32>, tensor<i32>) -> tensor<64x32xf32>
      %43:3 = func.call @closed_call_4(%iterArg_31, %iterArg_32, %iterArg_33, %iterArg_35, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<64x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<64x32xf32>, tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>)
      %44 = func.call @dynamic_update_index_in_dim_5(%iterArg_36, %43#1, %31) : (tensor<3x32x128xf32>, tensor<32x128xf32>, tensor<i32>) -> tensor<3x32x128xf32>
      %45 = func.call @dynamic_update_index_in_dim_6(%iterArg_37, %43#2, %31) : (tensor<3x128x32xf32>, tensor<128x32xf32>, tensor<i32>) -> tensor<3x128x32xf32>
      %c_40 = stablehlo.constant dense<1> : tensor<i32>
      %46 = stablehlo.add %iterArg_34, %c_40 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_21, %iterArg_22, %iterArg_23, %iterArg_24, %iterArg_25, %iterArg_26, %iterArg_27, %iterArg_28, %iterArg_29, %iterArg_30, %iterArg_31, %iterArg_32, %iterArg_33, %46, %43#0, %44, %45 : tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x256x32xf32>, tensor<3x64x32xf32>, tensor<3x64x32xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<i32>, tensor<64x32xf32>, tensor<3x32x128xf32>, tensor<3x128x32xf32>
    }
    %cst_19 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<3x32x128xf32>
    %25 = stablehlo.multiply %24, %23#16 : tensor<3x32x128xf32>
    %26 = stablehlo.subtract %arg0, %25 : tensor<3x32x128xf32>
    %cst_20 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<3x128x32xf32>
    %28 = stablehlo.multiply %27, %23#17 : tensor<3x128x32xf32>
    %29 = stablehlo.subtract %arg1, %28 : tensor<3x128x32xf32>
    return %26, %29, %17 : tensor<3x32x128xf32>, tensor<3x128x32xf32>, tensor<f32>
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
  func.func private @closed_call(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>, %arg3: tensor<8xf32>, %arg4: tensor<8xf32>, %arg5: tensor<8xf32>, %arg6: tensor<f32>, %arg7: tensor<64x32xf32>, %arg8: tensor<32x128xf32>, %arg9: tensor<128x32xf32>) -> (tensor<64x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<64x32xf32>, tensor<64x32xf32>) {
    %0:10 = sdy.manual_computation(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg7, %arg8, %arg9) in_shardings=[<@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{}, {"model"}]>, <@mesh, [{"model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data"}, {}]>] manual_axes={"data", "model"} (%arg10: tensor<1xf32>, %arg11: tensor<1xf32>, %arg12: tensor<1xf32>, %arg13: tensor<1xf32>, %arg14: tensor<1xf32>, %arg15: tensor<1xf32>, %arg16: tensor<32x32xf32>, %arg17: tensor<32x32xf32>, %arg18: tensor<32x32xf32>) {
      %5 = stablehlo.reshape %arg10 : (tensor<1xf32>) -> tensor<f32>
      %6 = stablehlo.reshape %arg11 : (tensor<1xf32>) -> tensor<f32>
      %7 = stablehlo.reshape %arg12 : (tensor<1xf32>) -> tensor<f32>
      %8 = stablehlo.reshape %arg13 : (tensor<1xf32>) -> tensor<f32>
      %9 = stablehlo.reshape %arg14 : (tensor<1xf32>) -> tensor<f32>
      %10 = stablehlo.reshape %arg15 : (tensor<1xf32>) -> tensor<f32>
      %11 = stablehlo.dot_general %arg16, %arg17, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %12 = stablehlo.multiply %11, %11 : tensor<32x32xf32>
      %13 = stablehlo.multiply %12, %11 : tensor<32x32xf32>
      %14 = stablehlo.multiply %11, %11 : tensor<32x32xf32>
      %15 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %16 = stablehlo.multiply %15, %14 : tensor<32x32xf32>
      %17 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %18 = stablehlo.multiply %17, %13 : tensor<32x32xf32>
      %19 = stablehlo.add %11, %18 : tensor<32x32xf32>
      %20 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %21 = stablehlo.multiply %20, %19 : tensor<32x32xf32>
      %22 = stablehlo.tanh %21 : tensor<32x32xf32>
      %23 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %24 = stablehlo.subtract %23, %22 : tensor<32x32xf32>
      %25 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %26 = stablehlo.add %25, %22 : tensor<32x32xf32>
      %27 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %28 = stablehlo.multiply %27, %26 : tensor<32x32xf32>
      %29 = stablehlo.multiply %11, %28 : tensor<32x32xf32>
      %30 = stablehlo.dot_general %29, %arg18, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %31 = "stablehlo.all_reduce"(%30) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg19: tensor<f32>, %arg20: tensor<f32>):
        %32 = stablehlo.add %arg19, %arg20 : tensor<f32>
        stablehlo.return %32 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      sdy.return %arg17, %arg16, %16, %22, %24, %28, %11, %arg18, %29, %31 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    } : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>) -> (tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<64x32xf32>)
    %1 = stablehlo.add %arg7, %0#9 : tensor<64x32xf32>
    %2 = stablehlo.tanh %1 : tensor<64x32xf32>
    %3 = stablehlo.broadcast_in_dim %arg6, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %4 = stablehlo.subtract %3, %2 : tensor<64x32xf32>
    return %2, %0#0, %0#1, %0#2, %0#3, %0#4, %0#5, %0#6, %0#7, %0#8, %2, %4 : tensor<64x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<64x32xf32>, tensor<64x32xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<3x256x32xf32>, %arg1: tensor<256x32xf32>, %arg2: tensor<i32>) -> tensor<3x256x32xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<256x32xf32>) -> tensor<1x256x32xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x256x32xf32>, tensor<1x256x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x256x32xf32>
    return %1 : tensor<3x256x32xf32>
  }
  func.func private @dynamic_update_index_in_dim_1(%arg0: tensor<3x64x32xf32>, %arg1: tensor<64x32xf32>, %arg2: tensor<i32>) -> tensor<3x64x32xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<64x32xf32>) -> tensor<1x64x32xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x64x32xf32>, tensor<1x64x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x64x32xf32>
    return %1 : tensor<3x64x32xf32>
  }
  func.func private @dynamic_index_in_dim_2(%arg0: tensor<3x256x32xf32>, %arg1: tensor<i32>) -> tensor<256x32xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 256, 32] : (tensor<3x256x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x256x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x256x32xf32>) -> tensor<256x32xf32>
    return %1 : tensor<256x32xf32>
  }
  func.func private @dynamic_index_in_dim_3(%arg0: tensor<3x64x32xf32>, %arg1: tensor<i32>) -> tensor<64x32xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 64, 32] : (tensor<3x64x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x64x32xf32>) -> tensor<64x32xf32>
    return %1 : tensor<64x32xf32>
  }
  func.func private @closed_call_4(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>, %arg3: tensor<64x32xf32>, %arg4: tensor<256x32xf32>, %arg5: tensor<256x32xf32>, %arg6: tensor<256x32xf32>, %arg7: tensor<256x32xf32>, %arg8: tensor<256x32xf32>, %arg9: tensor<256x32xf32>, %arg10: tensor<256x32xf32>, %arg11: tensor<256x32xf32>, %arg12: tensor<256x32xf32>, %arg13: tensor<64x32xf32>, %arg14: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>) {
    %0 = stablehlo.multiply %arg3, %arg14 : tensor<64x32xf32>
    %1 = stablehlo.multiply %0, %arg13 : tensor<64x32xf32>
    %2 = stablehlo.add %0, %1 : tensor<64x32xf32>
    %3:3 = sdy.manual_computation(%2, %arg4, %arg5, %arg6, %arg0, %arg1, %arg7, %arg8, %arg2, %arg9, %arg10, %arg11, %arg12) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {"model"}]>, <@mesh, [{"model"}, {}]>] manual_axes={"data", "model"} (%arg15: tensor<32x32xf32>, %arg16: tensor<32x32xf32>, %arg17: tensor<32x32xf32>, %arg18: tensor<32x32xf32>, %arg19: tensor<1xf32>, %arg20: tensor<1xf32>, %arg21: tensor<32x32xf32>, %arg22: tensor<32x32xf32>, %arg23: tensor<1xf32>, %arg24: tensor<32x32xf32>, %arg25: tensor<32x32xf32>, %arg26: tensor<32x32xf32>, %arg27: tensor<32x32xf32>) {
      %5 = stablehlo.reshape %arg19 : (tensor<1xf32>) -> tensor<f32>
      %6 = stablehlo.reshape %arg20 : (tensor<1xf32>) -> tensor<f32>
      %7 = stablehlo.reshape %arg23 : (tensor<1xf32>) -> tensor<f32>
      %8 = stablehlo.dot_general %arg15, %arg27, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %9 = stablehlo.transpose %8, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %10 = stablehlo.dot_general %arg15, %arg26, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %11 = "stablehlo.all_reduce"(%9) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg28: tensor<f32>, %arg29: tensor<f32>):
        %31 = stablehlo.add %arg28, %arg29 : tensor<f32>
        stablehlo.return %31 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %12 = stablehlo.multiply %arg25, %10 : tensor<32x32xf32>
      %13 = stablehlo.multiply %10, %arg24 : tensor<32x32xf32>
      %14 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %15 = stablehlo.multiply %14, %12 : tensor<32x32xf32>
      %16 = stablehlo.multiply %15, %arg22 : tensor<32x32xf32>
      %17 = stablehlo.multiply %16, %arg21 : tensor<32x32xf32>
      %18 = stablehlo.add %16, %17 : tensor<32x32xf32>
      %19 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %20 = stablehlo.multiply %19, %18 : tensor<32x32xf32>
      %21 = stablehlo.add %13, %20 : tensor<32x32xf32>
      %22 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %23 = stablehlo.multiply %22, %20 : tensor<32x32xf32>
      %24 = stablehlo.multiply %23, %arg18 : tensor<32x32xf32>
      %25 = stablehlo.add %21, %24 : tensor<32x32xf32>
      %26 = stablehlo.dot_general %25, %arg17, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %27 = stablehlo.transpose %26, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %28 = stablehlo.dot_general %25, %arg16, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %29 = "stablehlo.all_reduce"(%27) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg28: tensor<f32>, %arg29: tensor<f32>):
        %31 = stablehlo.add %arg28, %arg29 : tensor<f32>
        stablehlo.return %31 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      %30 = "stablehlo.all_reduce"(%28) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg28: tensor<f32>, %arg29: tensor<f32>):
        %31 = stablehlo.add %arg28, %arg29 : tensor<f32>
        stablehlo.return %31 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      sdy.return %30, %29, %11 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
    } : (tensor<64x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<8xf32>, tensor<8xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<8xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>, tensor<256x32xf32>) -> (tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>)
    %4 = stablehlo.add %2, %3#0 : tensor<64x32xf32>
    return %4, %3#1, %3#2 : tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>
  }
  func.func private @dynamic_update_index_in_dim_5(%arg0: tensor<3x32x128xf32>, %arg1: tensor<32x128xf32>, %arg2: tensor<i32>) -> tensor<3x32x128xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<32x128xf32>) -> tensor<1x32x128xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x32x128xf32>, tensor<1x32x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x32x128xf32>
    return %1 : tensor<3x32x128xf32>
  }
  func.func private @dynamic_update_index_in_dim_6(%arg0: tensor<3x128x32xf32>, %arg1: tensor<128x32xf32>, %arg2: tensor<i32>) -> tensor<3x128x32xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<128x32xf32>) -> tensor<1x128x32xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x128x32xf32>, tensor<1x128x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x128x32xf32>
    return %1 : tensor<3x128x32xf32>
  }
}
