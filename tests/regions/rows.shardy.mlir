module @jit__lambda attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<96x32xf32>, %arg1: tensor<64xi32>) -> (tensor<64x32xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg1, %arg0) in_shardings=[<@mesh, [{"data"}]>, <@mesh, [{"model"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data", "model"} (%arg2: tensor<32xi32>, %arg3: tensor<24x32xf32>) {
      %c = stablehlo.constant dense<1> : tensor<ui32>
      %c_0 = stablehlo.constant dense<4> : tensor<ui32>
      %2 = stablehlo.partition_id : tensor<ui32>
      %3 = stablehlo.divide %2, %c : tensor<ui32>
      %4 = stablehlo.remainder %3, %c_0 : tensor<ui32>
      %5 = stablehlo.convert %4 : (tensor<ui32>) -> tensor<i32>
      %c_1 = stablehlo.constant dense<24> : tensor<i32>
      %6 = stablehlo.multiply %5, %c_1 : tensor<i32>
      %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<i32>) -> tensor<32xi32>
      %8 = stablehlo.subtract %arg2, %7 : tensor<32xi32>
      %c_2 = stablehlo.constant dense<0> : tensor<i32>
      %9 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<32xi32>
      %10 = stablehlo.compare GE, %8, %9, SIGNED : (tensor<32xi32>, tensor<32xi32>) -> tensor<32xi1>
      %c_3 = stablehlo.constant dense<24> : tensor<i32>
      %11 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<32xi32>
      %12 = stablehlo.compare LT, %8, %11, SIGNED : (tensor<32xi32>, tensor<32xi32>) -> tensor<32xi1>
      %13 = stablehlo.and %10, %12 : tensor<32xi1>
      %c_4 = stablehlo.constant dense<0> : tensor<i32>
      %c_5 = stablehlo.constant dense<23> : tensor<i32>
      %14 = func.call @clip(%8, %c_4, %c_5) : (tensor<32xi32>, tensor<i32>, tensor<i32>) -> tensor<32xi32>
      %15 = func.call @_take(%arg3, %14) : (tensor<24x32xf32>, tensor<32xi32>) -> tensor<32x32xf32>
      %16 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<32xi1>) -> tensor<32x1xi1>
      %c_6 = stablehlo.constant dense<0> : tensor<i32>
      %17 = func.call @_where_0(%16, %15, %c_6) : (tensor<32x1xi1>, tensor<32x32xf32>, tensor<i32>) -> tensor<32x32xf32>
      %18 = "stablehlo.all_reduce"(%17) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
        %19 = stablehlo.add %arg4, %arg5 : tensor<f32>
        stablehlo.return %19 : tensor<f32>
      }) : (tensor<32x32xf32>) -> tensor<32x32xf32>
      sdy.return %18 : tensor<32x32xf32>
    } : (tensor<64xi32>, tensor<96x32xf32>) -> tensor<64x32xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<64x32xf32>
    return %1 : tensor<64x32xf32>
  }
  func.func private @clip(%arg0: tensor<32xi32>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<32xi32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<32xi32>
    %2 = stablehlo.maximum %1, %arg0 : tensor<32xi32>
    %3 = stablehlo.convert %arg2 : tensor<i32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<i32>) -> tensor<32xi32>
    %5 = stablehlo.minimum %4, %2 : tensor<32xi32>
    return %5 : tensor<32xi32>
  }
  func.func private @_take(%arg0: tensor<24x32xf32>, %arg1: tensor<32xi32>) -> tensor<32x32xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<32xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<32xi32>, tensor<32xi32>) -> tensor<32xi1>
    %c_0 = stablehlo.constant dense<24> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<32xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<32xi32>
    %4 = call @_where(%1, %3, %arg1) : (tensor<32xi1>, tensor<32xi32>, tensor<32xi32>) -> tensor<32xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<32xi32>) -> tensor<32x1xi32>
    %c_1 = stablehlo.constant dense<23> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<32x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<32x1xi32>, tensor<32x1xi32>) -> tensor<32x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [1] : (tensor<1xi32>) -> tensor<1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<1x1xi32>) -> tensor<32x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<32x1xi32>, tensor<32x1xi32>) -> tensor<32x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<32x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [1] : (tensor<32x1xi1>, tensor<i1>) -> tensor<32xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<24x32xf32>, tensor<32x1xi32>) -> tensor<32x32xf32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<32xi1>) -> tensor<32x32xi1>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %16 = stablehlo.select %14, %13, %15 : tensor<32x32xi1>, tensor<32x32xf32>
    return %16 : tensor<32x32xf32>
  }
  func.func private @_where(%arg0: tensor<32xi1>, %arg1: tensor<32xi32>, %arg2: tensor<32xi32>) -> tensor<32xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<32xi1>, tensor<32xi32>
    return %0 : tensor<32xi32>
  }
  func.func private @_where_0(%arg0: tensor<32x1xi1>, %arg1: tensor<32x32xf32>, %arg2: tensor<i32>) -> tensor<32x32xf32> {
    %0 = stablehlo.convert %arg2 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<32x1xi1>) -> tensor<32x32xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<32x32xi1>, tensor<32x32xf32>
    return %3 : tensor<32x32xf32>
  }
}
