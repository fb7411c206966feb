"""What the worklogs that the ladder follows published: GFLOP/s in fp32 by rung, 0 being cuBLAS. Pure data.

A6000 (4092x4092x4092): "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", 2022.
GH200 (4096x4096x4096): notes that repeat that worklog, 2025. It holds the same Hopper chip as the H200 for fp32.
"""

A6000 = {0: 23249.6, 1: 309.0, 2: 1986.5, 3: 2980.3, 4: 8474.7, 5: 15971.7, 6: 18237.3, 9: 19721.0, 10: 21779.3}
GH200 = {0: 50058.0, 1: 502.5, 2: 6352.2, 3: 9174.1, 4: 17040.9, 5: 25933.0, 6: 31420.8, 10: 41496.0}
