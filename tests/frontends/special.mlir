module @jit_run attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>) -> (tensor<8xf32> {jax.result_info = "result[0]"}, tensor<8xf32> {jax.result_info = "result[1]"}, tensor<8xf32> {jax.result_info = "result[2]"}, tensor<8xf32> {jax.result_info = "result[3]"}, tensor<8xf32> {jax.result_info = "result[4]"}, tensor<8xf32> {jax.result_info = "result[5]"}, tensor<8xf32> {jax.result_info = "result[6]"}, tensor<8xf32> {jax.result_info = "result[7]"}, tensor<8xf32> {jax.result_info = "result[8]"}, tensor<8xf32> {jax.result_info = "result[9]"}, tensor<8xf32> {jax.result_info = "result[10]"}, tensor<8xi1> {jax.result_info = "result[11]"}, tensor<8xf32> {jax.result_info = "result[12]"}, tensor<8xf32> {jax.result_info = "result[13]"}, tensor<8xf32> {jax.result_info = "result[14]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<8xf32>) -> tensor<8xbf16>
    %1 = chlo.erfc %0 : tensor<8xbf16> -> tensor<8xbf16>
    %2 = stablehlo.convert %1 : (tensor<8xbf16>) -> tensor<8xf32>
    %3 = chlo.erf %arg0 : tensor<8xf32> -> tensor<8xf32>
    %4 = chlo.erfc %arg0 : tensor<8xf32> -> tensor<8xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %6 = stablehlo.divide %arg0, %5 : tensor<8xf32>
    %7 = chlo.erf_inv %6 : tensor<8xf32> -> tensor<8xf32>
    %8 = chlo.lgamma %arg1 : tensor<8xf32> -> tensor<8xf32>
    %9 = chlo.digamma %arg1 : tensor<8xf32> -> tensor<8xf32>
    %10 = chlo.atan %arg0 : tensor<8xf32> -> tensor<8xf32>
    %11 = chlo.sinh %arg0 : tensor<8xf32> -> tensor<8xf32>
    %12 = chlo.cosh %arg0 : tensor<8xf32> -> tensor<8xf32>
    %13 = stablehlo.cbrt %arg0 : tensor<8xf32>
    %14 = chlo.next_after %arg0, %arg1 : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
    %15 = call @isinf(%arg0) : (tensor<8xf32>) -> tensor<8xi1>
    %cst_0 = stablehlo.constant dense<9.000000e+00> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %17 = stablehlo.multiply %arg0, %16 : tensor<8xf32>
    %18 = call @round(%17) : (tensor<8xf32>) -> tensor<8xf32>
    %19 = stablehlo.reduce_precision %arg0, format = e8m7 : tensor<8xf32>
    %20 = stablehlo.complex %arg0, %arg1 : tensor<8xcomplex<f32>>
    %21 = stablehlo.real %20 : (tensor<8xcomplex<f32>>) -> tensor<8xf32>
    %22 = stablehlo.imag %20 : (tensor<8xcomplex<f32>>) -> tensor<8xf32>
    %23 = stablehlo.negate %22 : tensor<8xf32>
    %24 = stablehlo.complex %21, %23 : tensor<8xcomplex<f32>>
    %25 = stablehlo.real %24 : (tensor<8xcomplex<f32>>) -> tensor<8xf32>
    return %3, %4, %7, %8, %9, %10, %11, %12, %13, %14, %2, %15, %18, %19, %25 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xi1>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
  func.func private @isinf(%arg0: tensor<8xf32>) -> tensor<8xi1> {
    %0 = stablehlo.abs %arg0 : tensor<8xf32>
    %cst = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %2 = stablehlo.compare EQ, %0, %1, FLOAT : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
    return %2 : tensor<8xi1>
  }
  func.func private @round(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.round_nearest_even %arg0 : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
