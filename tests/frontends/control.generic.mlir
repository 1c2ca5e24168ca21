"builtin.module"() <{sym_name = "jit_run"}> ({
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<i32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>), res_attrs = [{jax.result_info = "result[0][0]"}, {jax.result_info = "result[0][1]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg3: tensor<i32>, %arg4: tensor<5xf32>, %arg5: tensor<5xf32>):
    %6 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %7 = "stablehlo.constant"() <{value = dense<2> : tensor<i32>}> : () -> tensor<i32>
    %8 = "stablehlo.clamp"(%6, %arg3, %7) : (tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %9 = "stablehlo.case"(%8) ({
      %41 = "stablehlo.add"(%arg4, %arg5) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
      "stablehlo.return"(%41) : (tensor<5xf32>) -> ()
    }, {
      %38 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %39 = "stablehlo.broadcast_in_dim"(%38) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
      %40 = "stablehlo.multiply"(%arg4, %39) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
      "stablehlo.return"(%40) : (tensor<5xf32>) -> ()
    }, {
      %37 = "stablehlo.subtract"(%arg5, %arg4) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
      "stablehlo.return"(%37) : (tensor<5xf32>) -> ()
    }) : (tensor<i32>) -> tensor<5xf32>
    %10 = "stablehlo.slice"(%arg4) <{limit_indices = array<i64: 1>, start_indices = array<i64: 0>, strides = array<i64: 1>}> : (tensor<5xf32>) -> tensor<1xf32>
    %11 = "stablehlo.reshape"(%10) : (tensor<1xf32>) -> tensor<f32>
    %12 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %13 = "stablehlo.compare"(%11, %12) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %14 = "stablehlo.convert"(%13) : (tensor<i1>) -> tensor<i32>
    %15 = "stablehlo.case"(%14) ({
      %36 = "stablehlo.negate"(%9) : (tensor<5xf32>) -> tensor<5xf32>
      "stablehlo.return"(%36) : (tensor<5xf32>) -> ()
    }, {
      "stablehlo.return"(%9) : (tensor<5xf32>) -> ()
    }) : (tensor<i32>) -> tensor<5xf32>
    %16:2 = "stablehlo.while"(%arg5, %15) ({
    ^bb0(%arg16: tensor<5xf32>, %arg17: tensor<5xf32>):
      %31 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %32 = "stablehlo.reduce"(%arg17, %31) <{dimensions = array<i64: 0>}> ({
      ^bb0(%arg18: tensor<f32>, %arg19: tensor<f32>):
        %35 = "stablehlo.add"(%arg18, %arg19) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%35) : (tensor<f32>) -> ()
      }) : (tensor<5xf32>, tensor<f32>) -> tensor<f32>
      %33 = "stablehlo.constant"() <{value = dense<1.000000e+01> : tensor<f32>}> : () -> tensor<f32>
      %34 = "stablehlo.compare"(%32, %33) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%34) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg14: tensor<5xf32>, %arg15: tensor<5xf32>):
      %26 = "stablehlo.abs"(%arg14) : (tensor<5xf32>) -> tensor<5xf32>
      %27 = "stablehlo.add"(%arg15, %26) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
      %28 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %29 = "stablehlo.broadcast_in_dim"(%28) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
      %30 = "stablehlo.add"(%27, %29) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
      "stablehlo.return"(%arg14, %30) : (tensor<5xf32>, tensor<5xf32>) -> ()
    }) : (tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>)
    %17:2 = "stablehlo.optimization_barrier"(%9, %16#1) : (tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>)
    %18 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %19 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %20:4 = "stablehlo.while"(%arg4, %19, %18, %arg5) ({
    ^bb0(%arg10: tensor<5xf32>, %arg11: tensor<i32>, %arg12: tensor<i32>, %arg13: tensor<5xf32>):
      %24 = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
      %25 = "stablehlo.compare"(%arg11, %24) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%25) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg6: tensor<5xf32>, %arg7: tensor<i32>, %arg8: tensor<i32>, %arg9: tensor<5xf32>):
      %21:2 = "func.call"(%arg6, %arg8, %arg9) <{callee = @closed_call}> : (tensor<5xf32>, tensor<i32>, tensor<5xf32>) -> (tensor<i32>, tensor<5xf32>)
      %22 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %23 = "stablehlo.add"(%arg7, %22) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg6, %23, %21#0, %21#1) : (tensor<5xf32>, tensor<i32>, tensor<i32>, tensor<5xf32>) -> ()
    }) : (tensor<5xf32>, tensor<i32>, tensor<i32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<i32>, tensor<i32>, tensor<5xf32>)
    "func.return"(%17#0, %17#1, %20#3) : (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<5xf32>, tensor<i32>, tensor<5xf32>) -> (tensor<i32>, tensor<5xf32>), res_attrs = [{}, {}], sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<5xf32>, %arg1: tensor<i32>, %arg2: tensor<5xf32>):
    %0 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %1 = "stablehlo.add"(%arg1, %0) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %2 = "stablehlo.convert"(%arg1) : (tensor<i32>) -> tensor<f32>
    %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
    %4 = "stablehlo.multiply"(%3, %arg0) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %5 = "stablehlo.add"(%arg2, %4) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    "func.return"(%1, %5) : (tensor<i32>, tensor<5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
