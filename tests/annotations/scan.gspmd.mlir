module @jit_update attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x128x128xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<64x128xf32>, %arg2: tensor<64x128xf32>, %arg3: tensor<2xui32>) -> (tensor<3x128x128xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.custom_call @Sharding(%arg3) {backend_config = "", mhlo.sharding = "{replicated}"} : (tensor<2xui32>) -> tensor<2xui32>
    %1 = call @_threefry_split(%0) : (tensor<2xui32>) -> tensor<3x2xui32>
    %2:2 = call @_bernoulli() : () -> (tensor<1x1xf32>, tensor<1x1xf32>)
    %c = stablehlo.constant dense<0> : tensor<i32>
    %3 = call @_where(%c) : (tensor<i32>) -> tensor<64x128xf32>
    %cst = stablehlo.constant dense<0.899999976> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x64x128xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x64x128xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<3x64x128xf32>
    %c_3 = stablehlo.constant dense<false> : tensor<i1>
    %7 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i1>) -> tensor<3x64x128xi1>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %8:12 = stablehlo.while(%iterArg = %arg0, %iterArg_11 = %1, %iterArg_12 = %2#0, %iterArg_13 = %2#1, %iterArg_14 = %cst, %iterArg_15 = %3, %iterArg_16 = %c_4, %iterArg_17 = %arg1, %iterArg_18 = %4, %iterArg_19 = %5, %iterArg_20 = %6, %iterArg_21 = %7) : tensor<3x128x128xf32>, tensor<3x2xui32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<f32>, tensor<64x128xf32>, tensor<i32>, tensor<64x128xf32>, tensor<3x64x128xf32>, tensor<3x64x128xf32>, tensor<3x64x128xf32>, tensor<3x64x128xi1>
    cond {
      %c_22 = stablehlo.constant dense<3> : tensor<i32>
      %20 = stablehlo.compare LT, %iterArg_16, %c_22, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %20 : tensor<i1>
    } do {
      %20 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_16) : (tensor<3x128x128xf32>, tensor<i32>) -> tensor<128x128xf32>
      %21 = func.call @dynamic_index_in_dim_0(%iterArg_11, %iterArg_16) : (tensor<3x2xui32>, tensor<i32>) -> tensor<2xui32>
      %22:5 = func.call @closed_call_1(%iterArg_12, %iterArg_13, %iterArg_14, %iterArg_15, %iterArg_17, %20, %21) : (tensor<1x1xf32>, tensor<1x1xf32>, tensor<f32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<128x128xf32>, tensor<2xui32>) -> (tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xi1>)
      %23 = func.call @dynamic_update_index_in_dim(%iterArg_18, %22#1, %iterArg_16) : (tensor<3x64x128xf32>, tensor<64x128xf32>, tensor<i32>) -> tensor<3x64x128xf32>
      %24 = func.call @dynamic_update_index_in_dim(%iterArg_19, %22#2, %iterArg_16) : (tensor<3x64x128xf32>, tensor<64x128xf32>, tensor<i32>) -> tensor<3x64x128xf32>
      %25 = func.call @dynamic_update_index_in_dim(%iterArg_20, %22#3, %iterArg_16) : (tensor<3x64x128xf32>, tensor<64x128xf32>, tensor<i32>) -> tensor<3x64x128xf32>
      %26 = func.call @dynamic_update_index_in_dim_7(%iterArg_21, %22#4, %iterArg_16) : (tensor<3x64x128xi1>, tensor<64x128xi1>, tensor<i32>) -> tensor<3x64x128xi1>
      %c_22 = stablehlo.constant dense<1> : tensor<i32>
      %27 = stablehlo.add %iterArg_16, %c_22 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_11, %iterArg_12, %iterArg_13, %iterArg_14, %iterArg_15, %27, %22#0, %23, %24, %25, %26 : tensor<3x128x128xf32>, tensor<3x2xui32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<f32>, tensor<64x128xf32>, tensor<i32>, tensor<64x128xf32>, tensor<3x64x128xf32>, tensor<3x64x128xf32>, tensor<3x64x128xf32>, tensor<3x64x128xi1>
    }
    %9 = stablehlo.subtract %8#7, %arg2 : tensor<64x128xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<64x128xf32>
    %11 = stablehlo.multiply %10, %9 : tensor<64x128xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_7 = stablehlo.constant dense<8.192000e+03> : tensor<f32>
    %12 = stablehlo.divide %cst_6, %cst_7 : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<f32>) -> tensor<64x128xf32>
    %14 = stablehlo.multiply %13, %11 : tensor<64x128xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<3x128x128xf32>
    %c_9 = stablehlo.constant dense<0> : tensor<i32>
    %16:8 = stablehlo.while(%iterArg = %arg0, %iterArg_11 = %8#8, %iterArg_12 = %8#9, %iterArg_13 = %8#10, %iterArg_14 = %8#11, %iterArg_15 = %c_9, %iterArg_16 = %14, %iterArg_17 = %15) : tensor<3x128x128xf32>, tensor<3x64x128xf32>, tensor<3x64x128xf32>, tensor<3x64x128xf32>, tensor<3x64x128xi1>, tensor<i32>, tensor<64x128xf32>, tensor<3x128x128xf32>
    cond {
      %c_18 = stablehlo.constant dense<3> : tensor<i32>
      %20 = stablehlo.compare LT, %iterArg_15, %c_18, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %20 : tensor<i1>
    } do {
      %c_18 = stablehlo.constant dense<3> : tensor<i32>
      %20 = stablehlo.subtract %c_18, %iterArg_15 : tensor<i32>
      %c_19 = stablehlo.constant dense<1> : tensor<i32>
      %21 = stablehlo.subtract %20, %c_19 : tensor<i32>
      %22 = func.call @dynamic_index_in_dim(%iterArg, %21) : (tensor<3x128x128xf32>, tensor<i32>) -> tensor<128x128xf32>
      %23 = func.call @dynamic_index_in_dim_8(%iterArg_11, %21) : (tensor<3x64x128xf32>, tensor<i32>) -> tensor<64x128xf32>
      %24 = func.call @dynamic_index_in_dim_8(%iterArg_12, %21) : (tensor<3x64x128xf32>, tensor<i32>) -> tensor<64x128xf32>
      %25 = func.call @dynamic_index_in_dim_8(%iterArg_13, %21) : (tensor<3x64x128xf32>, tensor<i32>) -> tensor<64x128xf32>
      %26 = func.call @dynamic_index_in_dim_9(%iterArg_14, %21) : (tensor<3x64x128xi1>, tensor<i32>) -> tensor<64x128xi1>
      %27:2 = func.call @closed_call_10(%iterArg_16, %22, %23, %24, %25, %26) : (tensor<64x128xf32>, tensor<128x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xi1>) -> (tensor<64x128xf32>, tensor<128x128xf32>)
      %28 = func.call @dynamic_update_index_in_dim_12(%iterArg_17, %27#1, %21) : (tensor<3x128x128xf32>, tensor<128x128xf32>, tensor<i32>) -> tensor<3x128x128xf32>
      %c_20 = stablehlo.constant dense<1> : tensor<i32>
      %29 = stablehlo.add %iterArg_15, %c_20 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_11, %iterArg_12, %iterArg_13, %iterArg_14, %29, %27#0, %28 : tensor<3x128x128xf32>, tensor<3x64x128xf32>, tensor<3x64x128xf32>, tensor<3x64x128xf32>, tensor<3x64x128xi1>, tensor<i32>, tensor<64x128xf32>, tensor<3x128x128xf32>
    }
    %cst_10 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<3x128x128xf32>
    %18 = stablehlo.multiply %17, %16#7 : tensor<3x128x128xf32>
    %19 = stablehlo.subtract %arg0, %18 : tensor<3x128x128xf32>
    return %19 : tensor<3x128x128xf32>
  }
  func.func private @_threefry_split(%arg0: tensor<2xui32>) -> tensor<3x2xui32> {
    %0 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %1 = stablehlo.reshape %0 : (tensor<1xui32>) -> tensor<ui32>
    %2 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %3 = stablehlo.reshape %2 : (tensor<1xui32>) -> tensor<ui32>
    %4 = stablehlo.iota dim = 0 : tensor<3xui64>
    %c = stablehlo.constant dense<1> : tensor<ui64>
    %5 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<3xui64>
    %6 = stablehlo.multiply %5, %4 : tensor<3xui64>
    %c_0 = stablehlo.constant dense<32> : tensor<ui64>
    %7 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<3xui64>
    %8 = stablehlo.shift_right_logical %6, %7 : tensor<3xui64>
    %9 = stablehlo.convert %6 : (tensor<3xui64>) -> tensor<3xui32>
    %10 = stablehlo.convert %8 : (tensor<3xui64>) -> tensor<3xui32>
    %11:2 = call @threefry2x32(%1, %3, %10, %9) : (tensor<ui32>, tensor<ui32>, tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>, tensor<3xui32>)
    %12 = stablehlo.broadcast_in_dim %11#0, dims = [0] : (tensor<3xui32>) -> tensor<3x1xui32>
    %13 = stablehlo.broadcast_in_dim %11#1, dims = [0] : (tensor<3xui32>) -> tensor<3x1xui32>
    %14 = stablehlo.concatenate %12, %13, dim = 1 : (tensor<3x1xui32>, tensor<3x1xui32>) -> tensor<3x2xui32>
    return %14 : tensor<3x2xui32>
  }
  func.func private @threefry2x32(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<3xui32>, %arg3: tensor<3xui32>) -> (tensor<3xui32>, tensor<3xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<3xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<3xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i32>, tensor<i32>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<3xui32>, tensor<3xui32>
  }
  func.func private @closed_call(%arg0: tensor<i32>, %arg1: tensor<3xui32>, %arg2: tensor<3xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<3xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<3xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<3xui32>
    %9 = stablehlo.or %5, %8 : tensor<3xui32>
    %10 = stablehlo.xor %3, %9 : tensor<3xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<3xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<3xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<3xui32>
    %19 = stablehlo.or %15, %18 : tensor<3xui32>
    %20 = stablehlo.xor %13, %19 : tensor<3xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<3xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<3xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<3xui32>
    %29 = stablehlo.or %25, %28 : tensor<3xui32>
    %30 = stablehlo.xor %23, %29 : tensor<3xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<3xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<3xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<3xui32>
    %39 = stablehlo.or %35, %38 : tensor<3xui32>
    %40 = stablehlo.xor %33, %39 : tensor<3xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %42 = stablehlo.add %33, %41 : tensor<3xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %44 = stablehlo.add %40, %43 : tensor<3xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %48 = stablehlo.add %44, %47 : tensor<3xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_bernoulli() -> (tensor<1x1xf32>, tensor<1x1xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0:2 = call @_uniform(%cst, %cst_0) : (tensor<f32>, tensor<f32>) -> (tensor<1x1xf32>, tensor<1x1xf32>)
    return %0#0, %0#1 : tensor<1x1xf32>, tensor<1x1xf32>
  }
  func.func private @_uniform(%arg0: tensor<f32>, %arg1: tensor<f32>) -> (tensor<1x1xf32>, tensor<1x1xf32>) {
    %0 = stablehlo.convert %arg0 : tensor<f32>
    %1 = stablehlo.convert %arg1 : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %4 = stablehlo.subtract %3, %2 : tensor<1x1xf32>
    return %2, %4 : tensor<1x1xf32>, tensor<1x1xf32>
  }
  func.func private @_where(%arg0: tensor<i32>) -> tensor<64x128xf32> {
    %0 = stablehlo.convert %arg0 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<64x128xf32>
    return %1 : tensor<64x128xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<3x128x128xf32>, %arg1: tensor<i32>) -> tensor<128x128xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 128, 128] : (tensor<3x128x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x128xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x128x128xf32>) -> tensor<128x128xf32>
    return %1 : tensor<128x128xf32>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<3x2xui32>, %arg1: tensor<i32>) -> tensor<2xui32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 2] : (tensor<3x2xui32>, tensor<i32>, tensor<i32>) -> tensor<1x2xui32>
    %1 = stablehlo.reshape %0 : (tensor<1x2xui32>) -> tensor<2xui32>
    return %1 : tensor<2xui32>
  }
  func.func private @closed_call_1(%arg0: tensor<1x1xf32>, %arg1: tensor<1x1xf32>, %arg2: tensor<f32>, %arg3: tensor<64x128xf32>, %arg4: tensor<64x128xf32>, %arg5: tensor<128x128xf32>, %arg6: tensor<2xui32>) -> (tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xi1>) {
    %0 = stablehlo.dot_general %arg4, %arg5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.tanh %0 : tensor<64x128xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x128xf32>
    %3 = stablehlo.subtract %2, %1 : tensor<64x128xf32>
    %4 = call @_bernoulli_2(%arg6, %arg0, %arg1, %arg2) : (tensor<2xui32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<f32>) -> tensor<64x128xi1>
    %5 = call @_where_6(%4, %1, %arg3) : (tensor<64x128xi1>, tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<64x128xf32>
    return %5, %arg4, %1, %3, %4 : tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xi1>
  }
  func.func private @_bernoulli_2(%arg0: tensor<2xui32>, %arg1: tensor<1x1xf32>, %arg2: tensor<1x1xf32>, %arg3: tensor<f32>) -> tensor<64x128xi1> {
    %0 = call @_uniform_3(%arg0, %arg1, %arg2) : (tensor<2xui32>, tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<f32>) -> tensor<64x128xf32>
    %2 = stablehlo.compare LT, %0, %1, FLOAT : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<64x128xi1>
    return %2 : tensor<64x128xi1>
  }
  func.func private @_uniform_3(%arg0: tensor<2xui32>, %arg1: tensor<1x1xf32>, %arg2: tensor<1x1xf32>) -> tensor<64x128xf32> {
    %0 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %1 = stablehlo.reshape %0 : (tensor<1xui32>) -> tensor<ui32>
    %2 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %3 = stablehlo.reshape %2 : (tensor<1xui32>) -> tensor<ui32>
    %4 = stablehlo.iota dim = 0 : tensor<64x128xui64>
    %5 = stablehlo.iota dim = 1 : tensor<64x128xui64>
    %c = stablehlo.constant dense<128> : tensor<ui64>
    %6 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<64x128xui64>
    %7 = stablehlo.multiply %6, %4 : tensor<64x128xui64>
    %c_0 = stablehlo.constant dense<1> : tensor<ui64>
    %8 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<64x128xui64>
    %9 = stablehlo.multiply %8, %5 : tensor<64x128xui64>
    %10 = stablehlo.add %7, %9 : tensor<64x128xui64>
    %c_1 = stablehlo.constant dense<32> : tensor<ui64>
    %11 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<64x128xui64>
    %12 = stablehlo.shift_right_logical %10, %11 : tensor<64x128xui64>
    %13 = stablehlo.convert %10 : (tensor<64x128xui64>) -> tensor<64x128xui32>
    %14 = stablehlo.convert %12 : (tensor<64x128xui64>) -> tensor<64x128xui32>
    %15:2 = call @threefry2x32_4(%1, %3, %14, %13) : (tensor<ui32>, tensor<ui32>, tensor<64x128xui32>, tensor<64x128xui32>) -> (tensor<64x128xui32>, tensor<64x128xui32>)
    %16 = stablehlo.xor %15#0, %15#1 : tensor<64x128xui32>
    %c_2 = stablehlo.constant dense<9> : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %18 = stablehlo.shift_right_logical %16, %17 : tensor<64x128xui32>
    %c_3 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %19 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %20 = stablehlo.or %18, %19 : tensor<64x128xui32>
    %21 = stablehlo.bitcast_convert %20 : (tensor<64x128xui32>) -> tensor<64x128xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x128xf32>
    %23 = stablehlo.subtract %21, %22 : tensor<64x128xf32>
    %24 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<64x128xf32>
    %25 = stablehlo.multiply %23, %24 : tensor<64x128xf32>
    %26 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<64x128xf32>
    %27 = stablehlo.add %25, %26 : tensor<64x128xf32>
    %28 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<64x128xf32>
    %29 = stablehlo.maximum %28, %27 : tensor<64x128xf32>
    return %29 : tensor<64x128xf32>
  }
  func.func private @threefry2x32_4(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<64x128xui32>, %arg3: tensor<64x128xui32>) -> (tensor<64x128xui32>, tensor<64x128xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<64x128xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<64x128xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<64x128xui32>, tensor<64x128xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call_5(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<64x128xui32>, tensor<64x128xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<64x128xui32>, tensor<64x128xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i32>, tensor<i32>, tensor<64x128xui32>, tensor<64x128xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<64x128xui32>, tensor<64x128xui32>
  }
  func.func private @closed_call_5(%arg0: tensor<i32>, %arg1: tensor<64x128xui32>, %arg2: tensor<64x128xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<64x128xui32>, tensor<64x128xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<64x128xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<64x128xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<64x128xui32>
    %9 = stablehlo.or %5, %8 : tensor<64x128xui32>
    %10 = stablehlo.xor %3, %9 : tensor<64x128xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<64x128xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<64x128xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<64x128xui32>
    %19 = stablehlo.or %15, %18 : tensor<64x128xui32>
    %20 = stablehlo.xor %13, %19 : tensor<64x128xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<64x128xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<64x128xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<64x128xui32>
    %29 = stablehlo.or %25, %28 : tensor<64x128xui32>
    %30 = stablehlo.xor %23, %29 : tensor<64x128xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<64x128xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<64x128xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<64x128xui32>
    %39 = stablehlo.or %35, %38 : tensor<64x128xui32>
    %40 = stablehlo.xor %33, %39 : tensor<64x128xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %42 = stablehlo.add %33, %41 : tensor<64x128xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %44 = stablehlo.add %40, %43 : tensor<64x128xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<64x128xui32>
    %48 = stablehlo.add %44, %47 : tensor<64x128xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<64x128xui32>, tensor<64x128xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_where_6(%arg0: tensor<64x128xi1>, %arg1: tensor<64x128xf32>, %arg2: tensor<64x128xf32>) -> tensor<64x128xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<64x128xi1>, tensor<64x128xf32>
    return %0 : tensor<64x128xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<3x64x128xf32>, %arg1: tensor<64x128xf32>, %arg2: tensor<i32>) -> tensor<3x64x128xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<64x128xf32>) -> tensor<1x64x128xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x64x128xf32>, tensor<1x64x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x64x128xf32>
    return %1 : tensor<3x64x128xf32>
  }
  func.func private @dynamic_update_index_in_dim_7(%arg0: tensor<3x64x128xi1>, %arg1: tensor<64x128xi1>, %arg2: tensor<i32>) -> tensor<3x64x128xi1> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<64x128xi1>) -> tensor<1x64x128xi1>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x64x128xi1>, tensor<1x64x128xi1>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x64x128xi1>
    return %1 : tensor<3x64x128xi1>
  }
  func.func private @dynamic_index_in_dim_8(%arg0: tensor<3x64x128xf32>, %arg1: tensor<i32>) -> tensor<64x128xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 64, 128] : (tensor<3x64x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x128xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x64x128xf32>) -> tensor<64x128xf32>
    return %1 : tensor<64x128xf32>
  }
  func.func private @dynamic_index_in_dim_9(%arg0: tensor<3x64x128xi1>, %arg1: tensor<i32>) -> tensor<64x128xi1> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 64, 128] : (tensor<3x64x128xi1>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x128xi1>
    %1 = stablehlo.reshape %0 : (tensor<1x64x128xi1>) -> tensor<64x128xi1>
    return %1 : tensor<64x128xi1>
  }
  func.func private @closed_call_10(%arg0: tensor<64x128xf32>, %arg1: tensor<128x128xf32>, %arg2: tensor<64x128xf32>, %arg3: tensor<64x128xf32>, %arg4: tensor<64x128xf32>, %arg5: tensor<64x128xi1>) -> (tensor<64x128xf32>, tensor<128x128xf32>) {
    %0 = call @_where_11(%arg5, %arg0) : (tensor<64x128xi1>, tensor<64x128xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.multiply %0, %arg4 : tensor<64x128xf32>
    %2 = stablehlo.multiply %1, %arg3 : tensor<64x128xf32>
    %3 = stablehlo.add %1, %2 : tensor<64x128xf32>
    %4 = stablehlo.dot_general %3, %arg2, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<128x128xf32>
    %5 = stablehlo.transpose %4, dims = [1, 0] : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %6 = stablehlo.dot_general %3, %arg1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    return %6, %5 : tensor<64x128xf32>, tensor<128x128xf32>
  }
  func.func private @_where_11(%arg0: tensor<64x128xi1>, %arg1: tensor<64x128xf32>) -> tensor<64x128xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x128xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<64x128xi1>, tensor<64x128xf32>
    return %1 : tensor<64x128xf32>
  }
  func.func private @dynamic_update_index_in_dim_12(%arg0: tensor<3x128x128xf32>, %arg1: tensor<128x128xf32>, %arg2: tensor<i32>) -> tensor<3x128x128xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<128x128xf32>) -> tensor<1x128x128xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x128x128xf32>, tensor<1x128x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x128x128xf32>
    return %1 : tensor<3x128x128xf32>
  }
}
