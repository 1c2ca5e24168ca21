module {
  func.func public @main(%arg0: tensor<2x3x5xf32>) -> tensor<2x5x3x7xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 2, 1] : (tensor<2x3x5xf32>) -> tensor<2x5x3x7xf32>
    return %0 : tensor<2x5x3x7xf32>
  }
}
