module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<5xf32>, %arg2: tensor<5xf32>) -> (tensor<5xf32> {jax.result_info = "result[0][0]"}, tensor<5xf32> {jax.result_info = "result[0][1]"}, tensor<5xf32> {jax.result_info = "result[1]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.clamp %c, %arg0, %c_0 : tensor<i32>
    %1 = "stablehlo.case"(%0) ({
      %10 = stablehlo.add %arg1, %arg2 : tensor<5xf32>
      stablehlo.return %10 : tensor<5xf32>
    }, {
      %cst_3 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %10 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<5xf32>
      %11 = stablehlo.multiply %arg1, %10 : tensor<5xf32>
      stablehlo.return %11 : tensor<5xf32>
    }, {
      %10 = stablehlo.subtract %arg2, %arg1 : tensor<5xf32>
      stablehlo.return %10 : tensor<5xf32>
    }) : (tensor<i32>) -> tensor<5xf32>
    %2 = stablehlo.slice %arg1 [0:1] : (tensor<5xf32>) -> tensor<1xf32>
    %3 = stablehlo.reshape %2 : (tensor<1xf32>) -> tensor<f32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.compare GT, %3, %cst, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %5 = stablehlo.convert %4 : (tensor<i1>) -> tensor<i32>
    %6 = "stablehlo.case"(%5) ({
      %10 = stablehlo.negate %1 : tensor<5xf32>
      stablehlo.return %10 : tensor<5xf32>
    }, {
      stablehlo.return %1 : tensor<5xf32>
    }) : (tensor<i32>) -> tensor<5xf32>
    %7:2 = stablehlo.while(%iterArg = %arg2, %iterArg_3 = %6) : tensor<5xf32>, tensor<5xf32>
    cond {
      %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %10 = stablehlo.reduce(%iterArg_3 init: %cst_4) applies stablehlo.add across dimensions = [0] : (tensor<5xf32>, tensor<f32>) -> tensor<f32>
      %cst_5 = stablehlo.constant dense<1.000000e+01> : tensor<f32>
      %11 = stablehlo.compare LT, %10, %cst_5, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %11 : tensor<i1>
    } do {
      %10 = stablehlo.abs %iterArg : tensor<5xf32>
      %11 = stablehlo.add %iterArg_3, %10 : tensor<5xf32>
      %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %12 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<5xf32>
      %13 = stablehlo.add %11, %12 : tensor<5xf32>
      stablehlo.return %iterArg, %13 : tensor<5xf32>, tensor<5xf32>
    }
    %8:2 = stablehlo.optimization_barrier %1, %7#1 : tensor<5xf32>, tensor<5xf32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %9:4 = stablehlo.while(%iterArg = %arg1, %iterArg_3 = %c_2, %iterArg_4 = %c_1, %iterArg_5 = %arg2) : tensor<5xf32>, tensor<i32>, tensor<i32>, tensor<5xf32>
    cond {
      %c_6 = stablehlo.constant dense<3> : tensor<i32>
      %10 = stablehlo.compare LT, %iterArg_3, %c_6, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    } do {
      %10:2 = func.call @closed_call(%iterArg, %iterArg_4, %iterArg_5) : (tensor<5xf32>, tensor<i32>, tensor<5xf32>) -> (tensor<i32>, tensor<5xf32>)
      %c_6 = stablehlo.constant dense<1> : tensor<i32>
      %11 = stablehlo.add %iterArg_3, %c_6 : tensor<i32>
      stablehlo.return %iterArg, %11, %10#0, %10#1 : tensor<5xf32>, tensor<i32>, tensor<i32>, tensor<5xf32>
    }
    return %8#0, %8#1, %9#3 : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>
  }
  func.func private @closed_call(%arg0: tensor<5xf32>, %arg1: tensor<i32>, %arg2: tensor<5xf32>) -> (tensor<i32>, tensor<5xf32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg1, %c : tensor<i32>
    %1 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<5xf32>
    %3 = stablehlo.multiply %2, %arg0 : tensor<5xf32>
    %4 = stablehlo.add %arg2, %3 : tensor<5xf32>
    return %0, %4 : tensor<i32>, tensor<5xf32>
  }
}
