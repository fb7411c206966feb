"""Programs that products are made for: solvers and a training, with each way to multiply float32."""
